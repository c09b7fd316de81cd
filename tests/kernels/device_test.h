// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstring>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "kernels/device.h"

// One suite for every implementation of kernels::Device: a test is a TEST_P of a DeviceTest, and a
// test executable says in backend_*.cc which implementation it runs against. Memory of the device
// is only touched through DeviceArray, so that it may be a GPU's.
namespace spin::kernels {

// An implementation under test.
struct Backend {
  std::string name;
  std::unique_ptr<Device> (*make_device)();  // null if this machine has none: tests are skipped
  void* (*allocate)(size_t bytes);           // memory of the device, aligned to 256 bytes
  void (*release)(void* memory);
};

inline std::ostream& operator<<(std::ostream& out, const Backend& backend) {
  return out << backend.name;
}

// Defined once in each test executable.
std::vector<Backend> Backends();

// A device and its memory, for the length of one test.
class TestDevice {
 public:
  explicit TestDevice(const Backend& backend) : backend_(backend), device_(backend.make_device()) {}

  Device* operator->() const { return device_.get(); }
  bool exists() const { return device_ != nullptr; }
  const Backend& backend() const { return backend_; }

  // Runs `launched` to its end.
  void Finish(const absl::Status& launched) const {
    ASSERT_TRUE(launched.ok()) << launched;
    const absl::Status synchronized = device_->Synchronize({});
    ASSERT_TRUE(synchronized.ok()) << synchronized;
  }

 private:
  Backend backend_;
  std::unique_ptr<Device> device_;
};

// `count` elements in memory of the device; garbage at first. T is trivially copyable.
template <typename T>
class DeviceArray {
 public:
  DeviceArray(const TestDevice& device, size_t count)
      : device_(device),
        count_(count),
        data_(static_cast<T*>(device.backend().allocate(count * sizeof(T)))) {
    std::vector<T> garbage(count);
    if (count > 0) std::memset(static_cast<void*>(garbage.data()), 0xc5, count * sizeof(T));
    Upload(garbage);
  }
  DeviceArray(const TestDevice& device, const std::vector<T>& values)
      : DeviceArray(device, values.size()) {
    Upload(values);
  }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;
  ~DeviceArray() { device_.backend().release(data_); }

  T* data() const { return data_; }
  size_t size() const { return count_; }

  void Upload(const std::vector<T>& values, size_t at = 0) {
    ASSERT_LE(at + values.size(), count_);
    Copy(data_ + at, values.data(), values.size());
  }
  std::vector<T> Download(size_t at, size_t count) const {
    std::vector<T> out(count);
    EXPECT_LE(at + count, count_);
    if (at + count <= count_) Copy(out.data(), data_ + at, count);
    return out;
  }
  std::vector<T> Download() const { return Download(0, count_); }

 private:
  void Copy(T* to, const T* from, size_t count) const {
    if (count > 0) device_.Finish(device_->Copy(to, from, count * sizeof(T), {}));
  }

  const TestDevice& device_;
  size_t count_;
  T* data_;
};

class DeviceTest : public ::testing::TestWithParam<Backend> {
 protected:
  DeviceTest() : device_(GetParam()) {}
  void SetUp() override {
    if (!device_.exists()) GTEST_SKIP() << "no device for " << GetParam();
  }

  TestDevice device_;
};

inline std::string BackendName(const ::testing::TestParamInfo<Backend>& backend) {
  return backend.param.name;
}

#define SPIN_TEST_ON_EVERY_DEVICE(suite) \
  INSTANTIATE_TEST_SUITE_P(, suite, ::testing::ValuesIn(Backends()), BackendName)

}  // namespace spin::kernels
