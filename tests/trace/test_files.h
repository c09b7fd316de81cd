// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

// Files for the tests of readers, written byte by byte so that they can be wrong in any way.
#pragma once

#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <fstream>
#include <string>

#include "gtest/gtest.h"

namespace spin::trace {

// The eight bytes before a safetensors header.
inline std::string LengthBytes(uint64_t length) {
  std::string bytes;
  for (int i = 0; i < 8; ++i) bytes += static_cast<char>(length >> (8 * i) & 0xff);
  return bytes;
}

// A safetensors file with this header, right or wrong, and this data.
inline std::string Container(const std::string& header, const std::string& data) {
  return LengthBytes(header.size()) + header + data;
}

// A file with these contents; removed with this object.
class TestFile {
 public:
  explicit TestFile(const std::string& contents) : path_(NewPath()) {
    std::ofstream(path_, std::ios::binary) << contents;
  }
  ~TestFile() { std::remove(path_.c_str()); }
  TestFile(const TestFile&) = delete;
  TestFile& operator=(const TestFile&) = delete;

  const std::string& path() const { return path_; }

 private:
  // Tests may run side by side, as processes.
  static std::string NewPath() {
    static int count = 0;
    return testing::TempDir() + "spin_trace_test." + std::to_string(getpid()) + "." +
           std::to_string(count++) + ".safetensors";
  }

  const std::string path_;
};

}  // namespace spin::trace
