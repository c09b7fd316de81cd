// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "tests/kernels/device_test.h"

#include <numeric>

namespace spin::kernels {
namespace {

SPIN_TEST_ON_EVERY_DEVICE(DeviceTest);

TEST_P(DeviceTest, HasAUuid) { EXPECT_NE(device_->uuid(), ""); }

TEST_P(DeviceTest, CopiesToAndFromItsMemory) {
  std::vector<int32_t> values(100000);
  std::iota(values.begin(), values.end(), 0);
  const DeviceArray<int32_t> array(device_, values);
  EXPECT_EQ(array.Download(), values);
  EXPECT_EQ(array.Download(70000, 2), (std::vector<int32_t>{70000, 70001}));
}

TEST_P(DeviceTest, CopiesWithinItsMemory) {
  const DeviceArray<int32_t> from(device_, std::vector<int32_t>{1, 2, 3});
  const DeviceArray<int32_t> to(device_, 3);
  device_.Finish(device_->Copy(to.data(), from.data(), 3 * sizeof(int32_t), {}));
  EXPECT_EQ(to.Download(), from.Download());
}

TEST_P(DeviceTest, WritesAWord) {
  const DeviceArray<uint64_t> words(device_, std::vector<uint64_t>{1, 2});
  device_.Finish(device_->WriteWord(words.data() + 1, uint64_t{1} << 40, {}));
  EXPECT_EQ(words.Download(), (std::vector<uint64_t>{1, uint64_t{1} << 40}));
}

TEST_P(DeviceTest, WaitsUntilAWordHasReachedAValue) {
  const DeviceArray<uint64_t> word(device_, std::vector<uint64_t>{5});
  const DeviceArray<uint64_t> given_up(device_, std::vector<uint64_t>{0});
  device_.Finish(device_->WaitWord({word.data(), 5, absl::Minutes(1), given_up.data(), 1}, {}));
  device_.Finish(device_->WaitWord({word.data(), 4, absl::Minutes(1), given_up.data(), 2}, {}));
  EXPECT_EQ(given_up.Download(), std::vector<uint64_t>{0});
}

TEST_P(DeviceTest, WaitIsBoundedAndTheStreamGoesOn) {
  const DeviceArray<uint64_t> word(device_, std::vector<uint64_t>{5});
  const DeviceArray<uint64_t> given_up(device_, std::vector<uint64_t>{0});
  device_.Finish(
      device_->WaitWord({word.data(), 6, absl::Milliseconds(1), given_up.data(), 9}, {}));
  EXPECT_EQ(given_up.Download(), std::vector<uint64_t>{9});
  device_.Finish(device_->WriteWord(word.data(), 7, {}));
  EXPECT_EQ(word.Download(), (std::vector<uint64_t>{7}));
}

// Freeing waits for the whole device: it must not keep the wait from being given up.
TEST_P(DeviceTest, MemoryCanBeFreedBehindAWaitForADeadWriter) {
  const DeviceArray<uint64_t> word(device_, std::vector<uint64_t>{5});
  const DeviceArray<uint64_t> given_up(device_, std::vector<uint64_t>{0});
  auto memory = device_->Allocate(32 << 20);
  ASSERT_TRUE(memory.ok());
  const Stream stream = *device_->MakeStream();
  ASSERT_TRUE(
      device_->WaitWord({word.data(), 6, absl::Milliseconds(50), given_up.data(), 9}, stream).ok());
  memory->reset();
  device_.Finish(device_->Synchronize(stream));
  EXPECT_EQ(given_up.Download(), std::vector<uint64_t>{9});
}

TEST_P(DeviceTest, WaitCanBeGivenUpFromOutside) {
  const DeviceArray<uint64_t> word(device_, std::vector<uint64_t>{5});
  const DeviceArray<uint64_t> given_up(device_, std::vector<uint64_t>{0});
  const WordWait wait = {word.data(), 6, absl::Hours(1), given_up.data(), 9};
  const Stream stream = *device_->MakeStream();
  const Marker passed = *device_->MakeMarker();
  if (device_->runs_ahead()) {
    ASSERT_TRUE(device_->WaitWord(wait, stream).ok());
    ASSERT_TRUE(device_->Mark(passed, stream).ok());
    EXPECT_FALSE(device_->Passed(passed));
  }
  ASSERT_TRUE(device_->GiveUp(wait).ok());
  device_.Finish(device_->Synchronize(stream));
  EXPECT_EQ(given_up.Download(), std::vector<uint64_t>{9});
}

TEST_P(DeviceTest, TimeLiesBetweenTimedMarkers) {
  const Marker from = *device_->MakeTimedMarker();
  const Marker to = *device_->MakeTimedMarker();
  const DeviceArray<uint64_t> word(device_, std::vector<uint64_t>{0});
  ASSERT_TRUE(device_->Mark(from, {}).ok());
  ASSERT_TRUE(device_->WaitWord({word.data(), 1, absl::Milliseconds(2), word.data(), 1}, {}).ok());
  ASSERT_TRUE(device_->Mark(to, {}).ok());
  ASSERT_TRUE(device_->Synchronize({}).ok());
  const auto between = device_->Between(from, to);
  ASSERT_TRUE(between.ok()) << between.status();
  EXPECT_GE(*between, absl::Milliseconds(2));
}

}  // namespace
}  // namespace spin::kernels
