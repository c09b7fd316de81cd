// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "dataplane/step_runner.h"

#include <gmock/gmock.h>

#include "kernels/ema.h"
#include "tests/dataplane/tiny_session.h"

namespace spin::dataplane {
namespace {

using kernels::Coverage;
using ::testing::_;
using ::testing::Field;
using ::testing::NiceMock;
using ::testing::Return;

class StepRunnerTest : public ::testing::Test {
 protected:
  kernels::ListHeader Header(int32_t layer) const {
    return *session_.view().lists.Header(0, 0, layer);
  }
  kernels::LayerCounters Counters(int32_t layer) const { return session_.view().counters[layer]; }

  TinySession session_;
  StepRunner runner_ = session_.Runner(session_.device());
  const kernels::ScoreView staged_ = session_.view().staged_scores();
};

TEST_F(StepRunnerTest, RequestGoesFromAFullScanToItsKeptBlocks) {
  for (const int32_t layer : {0, 1}) session_.Stage(layer, 0, -4.0f);
  const kernels::ScoredRow cold = ScoredAt(319, Coverage::kAll);
  ASSERT_TRUE(runner_.Observe({&cold, 1}, staged_, runner_.all_layers(), 0.5, {}).ok());
  EXPECT_EQ(session_.V(0, 0, 319), -4.0f);

  const kernels::Row next = RowAt(320);
  ASSERT_TRUE(runner_.Predict({&next, 1}, HalfSparsity(), runner_.all_layers(), {}).ok());
  for (const int32_t layer : {0, 1}) {
    EXPECT_TRUE(
        SameStamp(Header(layer).stamp, session_.view().StampFor(TinySession::kGeneration, 320, 1)));
    EXPECT_EQ(Header(layer).blocks, 21);
    EXPECT_EQ(Header(layer).count, 11);  // the first ten, which tie, and the tail
    session_.Stage(layer, 0, -2.0f);
  }

  const kernels::ScoredRow kept = ScoredAt(320, Coverage::kKept);
  ASSERT_TRUE(runner_.Observe({&kept, 1}, staged_, runner_.all_layers(), 0.5, {}).ok());
  for (const int32_t layer : {0, 1}) {
    EXPECT_EQ(session_.V(0, layer, 159), -3.0f);
    EXPECT_EQ(session_.V(0, layer, 160), -4.0f);  // its block was not kept
    EXPECT_EQ(session_.V(0, layer, 320), -2.0f);
    EXPECT_EQ(Counters(layer).full_blocks, 20);
    EXPECT_EQ(Counters(layer).predicted_blocks + Counters(layer).pinned_blocks, 11);
  }
}

TEST_F(StepRunnerTest, AuditComparesAFullScanWithTheList) {
  const kernels::Row row = RowAt(319);
  ASSERT_TRUE(runner_.Predict({&row, 1}, HalfSparsity(), runner_.all_layers(), {}).ok());
  ASSERT_EQ(Header(0).count, 10);  // 0 to 8, and 19
  session_.Stage(0, 0, -4.0f);
  float* scores = reinterpret_cast<float*>(session_.view().StagedRow(0, 0, 0));
  scores[150] = scores[160] = -1.0f;
  const kernels::ScoredRow full = ScoredAt(319, Coverage::kAll);
  ASSERT_TRUE(runner_.Audit({&full, 1}, staged_, {0, 1}, {}).ok());
  EXPECT_EQ(Counters(0).audited_rows, 1);
  EXPECT_EQ(Counters(0).audit_topk_slots, 16);
  EXPECT_EQ(Counters(0).audit_missed_slots, 2);
  EXPECT_EQ(Counters(1).audited_rows, 0);
  EXPECT_EQ(session_.V(0, 0, 0), kernels::kUnobserved);
}

TEST_F(StepRunnerTest, ObservesTheAskedLayersOnly) {
  for (const int32_t layer : {0, 1}) session_.Stage(layer, 0, 1.0f);
  const kernels::ScoredRow row = ScoredAt(10, Coverage::kAll);
  ASSERT_TRUE(runner_.Observe({&row, 1}, staged_, {1, 1}, 0.5, {}).ok());
  EXPECT_EQ(session_.V(0, 0, 0), kernels::kUnobserved);
  EXPECT_EQ(session_.V(0, 1, 0), 1.0f);
}

TEST_F(StepRunnerTest, PredictsTheAskedLayersOnly) {
  const kernels::Row row = RowAt(10);
  ASSERT_TRUE(runner_.Predict({&row, 1}, HalfSparsity(), {1, 1}, {}).ok());
  EXPECT_EQ(Header(0).count, 0);
  EXPECT_EQ(Header(1).count, 1);
}

class MockDevice : public kernels::Device {
 public:
  using Stream = kernels::Stream;
  MOCK_METHOD(absl::string_view, uuid, (), (const, override));
  MOCK_METHOD(int64_t, SelectWorkspaceBytes, (int32_t, int32_t, int32_t), (const, override));
  MOCK_METHOD(int64_t, AuditWorkspaceBytes, (int32_t, int32_t, int32_t), (const, override));
  MOCK_METHOD(absl::StatusOr<kernels::DeviceMemory>, Allocate, (int64_t), (override));
  MOCK_METHOD(absl::StatusOr<kernels::DeviceMemory>, AllocateHost, (int64_t), (override));
  MOCK_METHOD(absl::StatusOr<Stream>, MakeStream, (), (override));
  MOCK_METHOD(absl::StatusOr<kernels::Marker>, MakeMarker, (), (override));
  MOCK_METHOD(absl::Status, Mark, (kernels::Marker, Stream), (override));
  MOCK_METHOD(bool, Passed, (kernels::Marker), (override));
  MOCK_METHOD(absl::Status, Predict, (const kernels::PredictParams&, Stream), (override));
  MOCK_METHOD(absl::Status, Select, (const kernels::SelectParams&, Stream), (override));
  MOCK_METHOD(absl::Status, Compact, (const kernels::CompactParams&, Stream), (override));
  MOCK_METHOD(absl::Status, SelectAndCompact,
              (const kernels::SelectParams&, const kernels::CompactParams&, Stream), (override));
  MOCK_METHOD(absl::Status, Remap, (const kernels::RemapParams&, Stream), (override));
  MOCK_METHOD(absl::Status, Observe, (const kernels::ObserveParams&, Stream), (override));
  MOCK_METHOD(absl::Status, Audit, (const kernels::AuditParams&, Stream), (override));
  MOCK_METHOD(absl::Status, Fill, (const kernels::FillParams&, Stream), (override));
  MOCK_METHOD(absl::Status, Copy, (void*, const void*, int64_t, Stream), (override));
  MOCK_METHOD(absl::Status, Zero, (void*, int64_t, Stream), (override));
  MOCK_METHOD(absl::Status, WriteWord, (uint64_t*, uint64_t, Stream), (override));
  MOCK_METHOD(absl::Status, WaitWord, (const kernels::WordWait&, Stream), (override));
  MOCK_METHOD(absl::Status, GiveUp, (const kernels::WordWait&), (override));
  MOCK_METHOD(bool, runs_ahead, (), (const, override));
  MOCK_METHOD(absl::StatusOr<kernels::Marker>, MakeTimedMarker, (), (override));
  MOCK_METHOD(absl::StatusOr<absl::Duration>, Between, (kernels::Marker, kernels::Marker),
              (override));
  MOCK_METHOD(absl::Status, Stage, (const kernels::StageParams&, Stream), (override));
  MOCK_METHOD(absl::Status, Expect, (const kernels::ExpectParams&, Stream), (override));
  MOCK_METHOD(absl::Status, Admit, (const kernels::AdmitParams&, Stream), (override));
  MOCK_METHOD(absl::Status, Synchronize, (Stream), (override));
};

class StepRunnerErrorTest : public ::testing::Test {
 protected:
  TinySession session_;
  NiceMock<MockDevice> device_;
  StepRunner runner_ = session_.Runner(&device_);
  const kernels::ScoreView staged_ = session_.view().staged_scores();
  const kernels::ScoredRow scored_ = ScoredAt(10, Coverage::kAll);
  const kernels::Row row_ = RowAt(11);
  const absl::Status broken_ = absl::InternalError("the device fell off the bus");
  const kernels::Stream stream_ = {this};
};

TEST_F(StepRunnerErrorTest, NoRowsLaunchNothing) {
  EXPECT_TRUE(runner_.Audit({}, staged_, runner_.all_layers(), {}).ok());
  EXPECT_TRUE(runner_.Observe({}, staged_, runner_.all_layers(), 0.5, {}).ok());
  EXPECT_TRUE(runner_.Predict({}, HalfSparsity(), runner_.all_layers(), {}).ok());
}

TEST_F(StepRunnerErrorTest, EverythingRunsOnTheGivenStream) {
  const auto ours = Field(&kernels::Stream::handle, this);
  EXPECT_CALL(device_, Audit(_, ours)).WillOnce(Return(absl::OkStatus()));
  EXPECT_CALL(device_, Observe(_, ours)).WillOnce(Return(absl::OkStatus()));
  EXPECT_CALL(device_, Copy(_, _, _, ours)).Times(4).WillRepeatedly(Return(absl::OkStatus()));
  EXPECT_CALL(device_, Select(_, ours)).WillOnce(Return(absl::OkStatus()));
  EXPECT_TRUE(runner_.Audit({&scored_, 1}, staged_, runner_.all_layers(), stream_).ok());
  EXPECT_TRUE(runner_.Observe({&scored_, 1}, staged_, runner_.all_layers(), 0.5, stream_).ok());
  EXPECT_TRUE(runner_.Predict({&row_, 1}, HalfSparsity(), runner_.all_layers(), stream_).ok());
}

TEST_F(StepRunnerErrorTest, DeviceErrorsComeBack) {
  EXPECT_CALL(device_, Audit).WillOnce(Return(broken_));
  EXPECT_CALL(device_, Observe).WillOnce(Return(broken_));
  EXPECT_EQ(runner_.Audit({&scored_, 1}, staged_, runner_.all_layers(), {}), broken_);
  EXPECT_EQ(runner_.Observe({&scored_, 1}, staged_, runner_.all_layers(), 0.5, {}), broken_);
}

TEST_F(StepRunnerErrorTest, NothingIsLaunchedOnRowsThatDidNotArrive) {
  EXPECT_CALL(device_, Copy).WillRepeatedly(Return(broken_));
  EXPECT_CALL(device_, Audit).Times(0);
  EXPECT_CALL(device_, Observe).Times(0);
  EXPECT_CALL(device_, Select).Times(0);
  EXPECT_EQ(runner_.Audit({&scored_, 1}, staged_, runner_.all_layers(), {}), broken_);
  EXPECT_EQ(runner_.Observe({&scored_, 1}, staged_, runner_.all_layers(), 0.5, {}), broken_);
  EXPECT_EQ(runner_.Predict({&row_, 1}, HalfSparsity(), runner_.all_layers(), {}), broken_);
}

TEST_F(StepRunnerErrorTest, AFailedPredictionSaysSo) {
  EXPECT_CALL(device_, Select).WillOnce(Return(broken_));
  EXPECT_EQ(runner_.Predict({&row_, 1}, HalfSparsity(), runner_.all_layers(), {}), broken_);
}

}  // namespace
}  // namespace spin::dataplane
