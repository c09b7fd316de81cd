// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "server/request_calls.h"

#include <gtest/gtest.h>

#include "tests/server/session_fixture.h"

namespace spin::server {
namespace {

class RequestCallsTest : public SessionFixture {
 protected:
  v1::OpenRequestsRequest OpenOf(std::initializer_list<const char*> keys) {
    v1::OpenRequestsRequest open;
    for (const char* const key : keys) {
      v1::OpenRequestItem& item = *open.add_items();
      item.set_key(key);
      item.set_slots(100);
    }
    return open;
  }
};

TEST_F(RequestCallsTest, AnAbandonedOpenLeavesNothingOpen) {
  const auto session = MakeSession();
  v1::OpenRequestsResponse response;
  int asked = 0;
  const absl::Status status = DoOpenRequests(
      *session, OpenOf({"a", "b", "c"}), [&asked] { return ++asked == 3; }, &response);
  EXPECT_EQ(status.code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(session->requests().size(), 0u);
  v1::OpenRequestsResponse again;
  EXPECT_TRUE(DoOpenRequests(
                  *session, OpenOf({"a", "b"}), [] { return false; }, &again)
                  .ok());
  EXPECT_TRUE(again.results(0).has_handle() && !again.results(0).has_error());
  EXPECT_EQ(session->requests().size(), 2u);
}

}  // namespace
}  // namespace spin::server
