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

}  // namespace
}  // namespace spin::kernels
