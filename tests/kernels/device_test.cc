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
  device_.Finish(device_->WaitWord(word.data(), 5, absl::Minutes(1), {}));
  device_.Finish(device_->WaitWord(word.data(), 4, absl::ZeroDuration(), {}));
}

TEST_P(DeviceTest, WaitIsBoundedAndTheStreamGoesOn) {
  const DeviceArray<uint64_t> word(device_, std::vector<uint64_t>{5});
  absl::Status waited = device_->WaitWord(word.data(), 6, absl::Milliseconds(1), {});
  if (waited.ok()) waited = device_->Synchronize({});
  EXPECT_EQ(waited.code(), absl::StatusCode::kDeadlineExceeded);
  device_.Finish(device_->WriteWord(word.data(), 7, {}));
  EXPECT_EQ(word.Download(), (std::vector<uint64_t>{7}));
}

}  // namespace
}  // namespace spin::kernels
