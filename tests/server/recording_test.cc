// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "server/recording.h"

#include <gtest/gtest.h>

#include <string>

namespace spin::server {
namespace {

class RecordingTest : public ::testing::Test {
 protected:
  RecordingTest() { options_.mutable_max_time()->set_seconds(60); }

  void Report(uint64_t id, v1::RecordingState state, const std::string& message = "") {
    v1::RecordingStatus report;
    report.set_recording_id(id);
    report.set_state(state);
    report.set_message(message);
    recording_.Take(report);
  }

  v1::RecordingState state() const { return recording_.status().state(); }

  const absl::Time now_ = absl::UnixEpoch();
  v1::RecordingOptions options_;
  Recording recording_;
};

TEST_F(RecordingTest, OneAtATimeUntilItsTimeIsLongOver) {
  ASSERT_TRUE(recording_.Start(1, options_, now_).ok());
  EXPECT_TRUE(absl::IsAlreadyExists(recording_.Start(2, options_, now_ + absl::Seconds(61))));
  ASSERT_TRUE(recording_.Start(2, options_, now_ + absl::Minutes(2)).ok());
  EXPECT_EQ(recording_.order().recording_id(), 2);
}

TEST_F(RecordingTest, StopFailsWhatHasNotBegunAndLeavesTheRestToTheEngine) {
  ASSERT_TRUE(recording_.Start(1, options_, now_).ok());
  ASSERT_TRUE(recording_.Stop(1).ok());
  EXPECT_EQ(state(), v1::RECORDING_STATE_FAILED);
  ASSERT_TRUE(recording_.Start(2, options_, now_).ok());
  Report(2, v1::RECORDING_STATE_RUNNING);
  ASSERT_TRUE(recording_.Stop(2).ok());
  EXPECT_EQ(state(), v1::RECORDING_STATE_RUNNING);
  EXPECT_TRUE(recording_.order().stop());
}

TEST_F(RecordingTest, WhatHasEndedStaysAndNeverGoesBack) {
  ASSERT_TRUE(recording_.Start(1, options_, now_).ok());
  Report(1, v1::RECORDING_STATE_RUNNING);
  Report(1, v1::RECORDING_STATE_WAITING);
  EXPECT_EQ(state(), v1::RECORDING_STATE_RUNNING);
  Report(1, v1::RECORDING_STATE_COMPLETE);
  Report(1, v1::RECORDING_STATE_FAILED);
  EXPECT_EQ(state(), v1::RECORDING_STATE_COMPLETE);
}

TEST_F(RecordingTest, AReportOfAnotherRecordingOrWithoutAStateIsIgnored) {
  Report(0, v1::RECORDING_STATE_RUNNING);
  EXPECT_EQ(state(), v1::RECORDING_STATE_UNSPECIFIED);
  ASSERT_TRUE(recording_.Start(1, options_, now_).ok());
  Report(2, v1::RECORDING_STATE_COMPLETE);
  Report(1, v1::RECORDING_STATE_UNSPECIFIED);
  Report(1, static_cast<v1::RecordingState>(77));
  EXPECT_EQ(state(), v1::RECORDING_STATE_ASKED);
}

TEST_F(RecordingTest, AMessageIsShortAndFitForATerminal) {
  ASSERT_TRUE(recording_.Start(1, options_, now_).ok());
  Report(1, v1::RECORDING_STATE_FAILED, "\033[2J" + std::string(10000, 'a'));
  EXPECT_LT(recording_.status().message().size(), 600);
  EXPECT_EQ(recording_.status().message().find('\033'), std::string::npos);
}

}  // namespace
}  // namespace spin::server
