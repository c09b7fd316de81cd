// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "server/request_table.h"

#include <gtest/gtest.h>

#include <cstring>
#include <limits>

#include "server/refusal.h"
#include "tests/server/session_fixture.h"

namespace spin::server {
namespace {

class RequestTableTest : public SessionFixture {
 protected:
  v1::RequestHandle HandleOf(const Request& request) {
    v1::RequestHandle handle;
    handle.set_index(request.index());
    handle.set_generation(request.generation());
    return handle;
  }
  v1::ErrorReason ReasonOf(const absl::Status& status) { return DetailOf(status).reason(); }

  std::shared_ptr<SessionRegion> region_ = MakeRegion();
  RequestTable table_{region_, false};
};

TEST_F(RequestTableTest, FindsByHandleOnly) {
  const auto request = *table_.Open("a", 100, nullptr);
  EXPECT_EQ(table_.Find(HandleOf(*request)), request);
  v1::RequestHandle other = HandleOf(*request);
  other.set_generation(other.generation() + 1);
  EXPECT_EQ(table_.Find(other), nullptr);
  other.set_index(1000);
  EXPECT_EQ(table_.Find(other), nullptr);
}

TEST_F(RequestTableTest, AnOpenKeyIsRefusedAndAClosedOneIsNot) {
  const uint32_t first_generation = (*table_.Open("a", 100, nullptr))->generation();
  EXPECT_EQ(ReasonOf(table_.Open("a", 100, nullptr).status()), v1::ERROR_REASON_DUPLICATE_REQUEST);
  EXPECT_NE(table_.Remove("a"), nullptr);
  const auto again = table_.Open("a", 100, nullptr);
  ASSERT_TRUE(again.ok());
  EXPECT_NE((*again)->generation(), first_generation);
}

TEST_F(RequestTableTest, CapacityGrowsInPages) {
  const auto request = *table_.Open("a", 1, nullptr);
  EXPECT_EQ(request->capacity_slots(), kernels::kPageSlots);
  ASSERT_TRUE(table_.Grow(request.get(), kernels::kPageSlots + 1).ok());
  EXPECT_EQ(request->capacity_slots(), 2 * kernels::kPageSlots);
  ASSERT_TRUE(table_.Grow(request.get(), 1).ok());
  EXPECT_EQ(request->capacity_slots(), 2 * kernels::kPageSlots);
}

// Lists have room for so much and no more.
TEST_F(RequestTableTest, CapacityEndsWithTheSessionsLongestContext) {
  dataplane::SessionShape shape = SmallShape();
  shape.max_slots = 1000;  // a part of a page
  RequestTable table(MakeRegion(shape), false);
  EXPECT_EQ((*table.Open("a", 1000, nullptr))->capacity_slots(), 1000);
}

TEST_F(RequestTableTest, ARefusedOpenLeavesNothingBehind) {
  const uint64_t before = used();
  EXPECT_EQ(ReasonOf(table_.Open("big", int64_t{1} << 40, nullptr).status()),
            v1::ERROR_REASON_CAPACITY);
  EXPECT_EQ(used(), before);
  EXPECT_EQ(table_.size(), 0u);
  EXPECT_TRUE(table_.Open("big", 1, nullptr).ok());
}

TEST_F(RequestTableTest, ARefusedGrowthKeepsWhatIsThere) {
  const auto request = *table_.Open("a", 100, nullptr);
  const uint64_t before = used();
  EXPECT_EQ(ReasonOf(table_.Grow(request.get(), int64_t{1} << 40)), v1::ERROR_REASON_CAPACITY);
  EXPECT_EQ(used(), before);
  EXPECT_EQ(request->capacity_slots(), kernels::kPageSlots);
}

TEST_F(RequestTableTest, MoreRequestsThanRecordsAreRefused) {
  for (int i = 0; i < SmallShape().max_requests; ++i) {
    ASSERT_TRUE(table_.Open(std::to_string(i), 1, nullptr).ok());
  }
  EXPECT_EQ(ReasonOf(table_.Open("one more", 1, nullptr).status()), v1::ERROR_REASON_CAPACITY);
  ASSERT_NE(table_.Remove("0"), nullptr);
  EXPECT_TRUE(table_.Open("one more", 1, nullptr).ok());
}

TEST_F(RequestTableTest, MemoryComesBackWithTheLastHolder) {
  const uint64_t before = used();
  auto in_flight = *table_.Open("a", 100, nullptr);  // as a running step holds it
  table_.Remove("a");
  EXPECT_GT(used(), before);
  in_flight = nullptr;
  EXPECT_EQ(used(), before);
}

TEST_F(RequestTableTest, FreshStateIsUnobservedWhateverWasThereBefore) {
  const int64_t floats = kernels::PageBytes(region_->shape().geometry) / 4;
  const auto page = [&](const Request& request) {
    const auto& record = region_->view().records[request.index()];
    return reinterpret_cast<float*>(kernels::PageAt(region_->view().state(), record, 0));
  };
  {
    const auto dirty = *table_.Open("a", 1, nullptr);
    std::fill_n(page(*dirty), floats, 1.0f);
    table_.Remove("a");
  }
  const auto clean = *table_.Open("b", 1, nullptr);
  for (int64_t i = 0; i < floats; ++i) {
    ASSERT_EQ(page(*clean)[i], -std::numeric_limits<float>::infinity());
  }
}

TEST_F(RequestTableTest, AForkStartsWithItsParentsStateAndGoesItsOwnWay) {
  const auto state = region_->view().state();
  const auto parent = *table_.Open("parent", 5000, nullptr);
  const auto first = [&](const Request& request, int page) {
    return reinterpret_cast<float*>(
        kernels::PageAt(state, region_->view().records[request.index()], page));
  };
  first(*parent, 0)[7] = 0.25f;
  first(*parent, 1)[9] = 0.75f;
  parent->step_state().progress = {true, 5000};
  const auto child = *table_.Open("child", 10, parent.get());
  EXPECT_EQ(child->capacity_slots(), parent->capacity_slots());
  EXPECT_EQ(first(*child, 0)[7], 0.25f);
  EXPECT_EQ(first(*child, 1)[9], 0.75f);
  EXPECT_EQ(child->step_state().progress.next_position, 5000);
  first(*child, 0)[7] = 0.5f;
  EXPECT_EQ(first(*parent, 0)[7], 0.25f);
  table_.Remove("parent");
  EXPECT_EQ(first(*child, 1)[9], 0.75f);
}

TEST_F(RequestTableTest, TheRegionOutlivesItsRequests) {
  auto request = *table_.Open("a", 1, nullptr);
  const uint64_t all = used();
  table_.RemoveAll();
  const std::weak_ptr<SessionRegion> region = region_;
  region_ = nullptr;
  EXPECT_EQ(used(), all);
  EXPECT_FALSE(region.expired());
}

}  // namespace
}  // namespace spin::server
