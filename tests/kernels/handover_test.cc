// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "kernels/handover.h"

#include <gmock/gmock.h>

#include "tests/kernels/device_test.h"

namespace spin::kernels {
namespace {

using ::testing::ElementsAre;

constexpr uint64_t kTicket = 5;

class HandoverTest : public DeviceTest {
 protected:
  struct Expected {
    uint64_t epoch;
    bool staging;
    uint64_t skipped;
    uint32_t late;
  };
  // For 7, of a spind whose word is `done`.
  Expected Expect(uint64_t done, absl::Duration limit) {
    const DeviceArray<uint64_t> word(device_, std::vector<uint64_t>{done});
    const DeviceArray<uint64_t> skipped(device_, std::vector<uint64_t>{3});
    const DeviceArray<std::byte> staging(device_, 1);
    const DeviceArray<Binding> binding(device_, {{.epoch = 77, .staging = staging.data()}});
    const DeviceArray<uint32_t> late(device_, std::vector<uint32_t>{10});
    device_.Finish(device_->Expect({.word = word.data(),
                                    .value = 7,
                                    .limit_ns = absl::ToInt64Nanoseconds(limit),
                                    .binding = binding.data(),
                                    .skipped = skipped.data(),
                                    .step = 8,
                                    .late = late.data()},
                                   {}));
    const Binding bound = binding.Download()[0];
    return {bound.epoch, bound.staging != nullptr, skipped.Download()[0], late.Download()[0]};
  }

  struct Admitted {
    Admission admission;
    std::vector<uint32_t> requests;  // of scored, audited, next
  };
  // The last wait was given up if its ticket is `given_up`.
  Admitted Admit(uint64_t given_up, uint64_t skipped) {
    const DeviceArray<uint64_t> flag(device_, std::vector<uint64_t>{given_up});
    const DeviceArray<uint64_t> skipped_step(device_, std::vector<uint64_t>{skipped});
    const DeviceArray<ScoredRow> scored(device_, {{.request = 1}, {.request = 2}});
    const DeviceArray<ScoredRow> audited(device_, {{.request = 2}});
    const DeviceArray<Row> next(device_, std::vector<Row>(1, {.request = 1}));
    const DeviceArray<Admission> admission(device_, 1);
    device_.Finish(device_->Admit({.given_up = flag.data(),
                                   .ticket = kTicket,
                                   .skipped = skipped_step.data(),
                                   .step = 8,
                                   .scored = scored.data(),
                                   .scored_count = 2,
                                   .audited = audited.data(),
                                   .audited_count = 1,
                                   .next = next.data(),
                                   .next_count = 1,
                                   .admission = admission.data()},
                                  {}));
    Admitted out = {admission.Download()[0], {}};
    for (const ScoredRow& row : scored.Download()) out.requests.push_back(row.request);
    for (const ScoredRow& row : audited.Download()) out.requests.push_back(row.request);
    for (const Row& row : next.Download()) out.requests.push_back(row.request);
    return out;
  }
};
SPIN_TEST_ON_EVERY_DEVICE(HandoverTest);

TEST_P(HandoverTest, AnEngineThatHasWaitedGoesOnAsPlanned) {
  for (const uint64_t done : {7, 8}) {
    const Expected expected = Expect(done, absl::Hours(1));
    EXPECT_EQ(expected.epoch, 77);
    EXPECT_TRUE(expected.staging);
    EXPECT_EQ(expected.skipped, 3);
    EXPECT_EQ(expected.late, 10);
  }
}

TEST_P(HandoverTest, AnEngineWaitsForSpindsWord) {
  if (!device_->runs_ahead()) GTEST_SKIP() << "there the caller itself waits";
  const DeviceArray<uint64_t> word(device_, std::vector<uint64_t>{6});
  const DeviceArray<uint64_t> skipped(device_, std::vector<uint64_t>{3});
  const DeviceArray<Binding> binding(device_, {{.epoch = 77}});
  const DeviceArray<uint32_t> late(device_, std::vector<uint32_t>{10});
  const Stream engine = *device_->MakeStream();
  const Marker waited = *device_->MakeMarker();
  ASSERT_TRUE(device_
                  ->Expect({.word = word.data(),
                            .value = 7,
                            .limit_ns = absl::ToInt64Nanoseconds(absl::Seconds(20)),
                            .binding = binding.data(),
                            .skipped = skipped.data(),
                            .step = 8,
                            .late = late.data()},
                           engine)
                  .ok());
  ASSERT_TRUE(device_->Mark(waited, engine).ok());
  EXPECT_FALSE(device_->Passed(waited));
  device_.Finish(device_->WriteWord(word.data(), 7, *device_->MakeStream()));
  device_.Finish(device_->Synchronize(engine));
  EXPECT_EQ(binding.Download()[0].epoch, 77);
  EXPECT_EQ(late.Download(), std::vector<uint32_t>{10});
}

TEST_P(HandoverTest, AnEngineThatGaveUpUsesNoListAndStagesNothing) {
  const Expected expected = Expect(6, absl::Milliseconds(1));
  EXPECT_EQ(expected.epoch, 0);
  EXPECT_FALSE(expected.staging);
  EXPECT_EQ(expected.skipped, 8);
  EXPECT_EQ(expected.late, 11);
}

TEST_P(HandoverTest, AStepWithItsScoresIsRun) {
  const Admitted admitted = Admit(kTicket - 1, 7);
  EXPECT_EQ(admitted.admission, Admission::kAdmitted);
  EXPECT_THAT(admitted.requests, ElementsAre(1, 2, 2, 1));
}

TEST_P(HandoverTest, AStepWhoseScoresNeverCameIsNot) {
  const Admitted admitted = Admit(kTicket, 7);
  EXPECT_EQ(admitted.admission, Admission::kGivenUp);
  EXPECT_THAT(admitted.requests, ElementsAre(kPaddingRow, kPaddingRow, kPaddingRow, kPaddingRow));
}

// By the time spind looks the engine may have skipped another one.
TEST_P(HandoverTest, AStepThatTheEngineSkippedIsNot) {
  for (const uint64_t skipped : {8, 9}) {
    const Admitted admitted = Admit(kTicket - 1, skipped);
    EXPECT_EQ(admitted.admission, Admission::kSkipped);
    EXPECT_THAT(admitted.requests, ElementsAre(kPaddingRow, kPaddingRow, kPaddingRow, kPaddingRow));
  }
}

}  // namespace
}  // namespace spin::kernels
