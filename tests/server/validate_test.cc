// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "server/validate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>

#include "server/refusal.h"

namespace spin::server {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

v1::OpenSessionRequest Good() {
  v1::OpenSessionRequest request;
  request.set_model_name("m");
  v1::Geometry& g = *request.mutable_geometry();
  g.set_layers(4);
  g.set_block_slots(64);
  g.set_topk(512);
  g.set_tokens_per_slot(1);
  g.set_max_slots(8192);
  g.set_max_requests(8);
  g.set_max_next_n(1);
  return request;
}

struct BadField {
  const char* field;
  std::function<void(v1::OpenSessionRequest&)> spoil;
};

class OpenSessionFieldTest : public ::testing::TestWithParam<BadField> {};

TEST_P(OpenSessionFieldTest, IsNamedWhenOutOfRange) {
  v1::OpenSessionRequest request = Good();
  GetParam().spoil(request);
  const absl::Status status = CheckOpenSession(request);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), StartsWith(GetParam().field));
  EXPECT_EQ(DetailOf(status).field(), GetParam().field);
  EXPECT_EQ(DetailOf(status).reason(), v1::ERROR_REASON_INVALID_FIELD);
}

INSTANTIATE_TEST_SUITE_P(
    Fields, OpenSessionFieldTest,
    ::testing::Values(
        BadField{"model_name", [](auto& r) { r.clear_model_name(); }},
        BadField{"model_name", [](auto& r) { r.set_model_name("a\"b"); }},
        BadField{"model_name", [](auto& r) { r.set_model_name("a\nb"); }},
        BadField{"model_name", [](auto& r) { r.set_model_name(std::string(129, 'a')); }},
        BadField{"client_name", [](auto& r) { r.set_client_name(std::string(129, 'a')); }},
        BadField{"geometry.layers", [](auto& r) { r.mutable_geometry()->set_layers(0); }},
        BadField{"geometry.layers", [](auto& r) { r.mutable_geometry()->set_layers(129); }},
        BadField{"geometry.block_slots",
                 [](auto& r) { r.mutable_geometry()->set_block_slots(48); }},
        BadField{"geometry.block_slots",
                 [](auto& r) { r.mutable_geometry()->set_block_slots(UINT32_MAX); }},
        BadField{"geometry.topk", [](auto& r) { r.mutable_geometry()->set_topk(0); }},
        BadField{"geometry.topk", [](auto& r) { r.mutable_geometry()->set_topk(2049); }},
        BadField{"geometry.tokens_per_slot",
                 [](auto& r) { r.mutable_geometry()->set_tokens_per_slot(0); }},
        BadField{"geometry.max_slots",
                 [](auto& r) { r.mutable_geometry()->set_max_slots(UINT64_MAX); }},
        BadField{"geometry.max_requests",
                 [](auto& r) { r.mutable_geometry()->set_max_requests(513); }},
        BadField{"geometry.max_next_n", [](auto& r) { r.mutable_geometry()->set_max_next_n(9); }},
        BadField{"geometry.state_dtype",
                 [](auto& r) { r.mutable_geometry()->set_state_dtype(v1::Dtype(77)); }},
        BadField{"executor", [](auto& r) { r.set_executor(v1::Executor(77)); }},
        BadField{"policy.sparsity", [](auto& r) {
                   r.mutable_policy()->set_sparsity(std::numeric_limits<double>::quiet_NaN());
                 }}));

TEST(CheckOpenSessionTest, TakesAGoodOne) { EXPECT_TRUE(CheckOpenSession(Good()).ok()); }

TEST(CheckKnownFieldsTest, FindsAStrangeFieldAtAnyDepth) {
  v1::OpenSessionRequest request = Good();
  EXPECT_TRUE(CheckKnownFields(request).ok());
  auto& policy = *request.mutable_policy();
  policy.GetReflection()->MutableUnknownFields(&policy)->AddVarint(999, 1);
  const absl::Status status = CheckKnownFields(request);
  EXPECT_THAT(std::string(status.message()), HasSubstr("Policy.999"));
  EXPECT_EQ(DetailOf(status).reason(), v1::ERROR_REASON_UNKNOWN_FIELD);
}

TEST(CheckStepTest, FindsAStrangeFieldInARow) {
  v1::StepRequest request;
  auto& handle = *request.add_rows()->mutable_handle();
  EXPECT_TRUE(CheckStep(request).ok());
  handle.GetReflection()->MutableUnknownFields(&handle)->AddVarint(999, 1);
  EXPECT_THAT(std::string(CheckStep(request).message()), HasSubstr("RequestHandle.999"));
}

TEST(CheckWatchStatsTest, IntervalIsBounded) {
  v1::WatchStatsRequest request;
  EXPECT_TRUE(CheckWatchStats(request).ok());
  request.mutable_interval()->set_nanos(1000);
  EXPECT_FALSE(CheckWatchStats(request).ok());
  request.mutable_interval()->set_seconds(1);
  EXPECT_TRUE(CheckWatchStats(request).ok());
  request.mutable_interval()->set_seconds(INT64_MAX);
  EXPECT_FALSE(CheckWatchStats(request).ok());
}

TEST(ShapeOfTest, StagingFollowsExecutorAndDrafts) {
  v1::OpenSessionRequest request = Good();
  EXPECT_FALSE(ShapeOf(request, kernels::Dtype::kF32).staging);
  request.mutable_geometry()->set_max_next_n(2);
  EXPECT_TRUE(ShapeOf(request, kernels::Dtype::kF32).staging);
  request.mutable_geometry()->set_max_next_n(1);
  request.set_executor(v1::EXECUTOR_SIDECAR);
  EXPECT_TRUE(ShapeOf(request, kernels::Dtype::kF32).staging);
}

}  // namespace
}  // namespace spin::server
