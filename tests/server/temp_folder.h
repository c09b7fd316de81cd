// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <stdlib.h>

#include <filesystem>
#include <string>

namespace spin::server {

// A private folder for sockets and slabs, gone with the test.
class TempFolder {
 public:
  TempFolder() {
    char path[] = "/tmp/spin-test-XXXXXX";
    path_ = mkdtemp(path);
  }
  ~TempFolder() { std::filesystem::remove_all(path_); }
  TempFolder(const TempFolder&) = delete;

  const std::string& path() const { return path_; }
  std::string File(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

}  // namespace spin::server
