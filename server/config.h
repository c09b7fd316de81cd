// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "kernels/geometry.h"
#include "server/policy.h"

// How spind is started: flags, then environment (SPIND_...), then a config file, then defaults.
namespace spin::server {

struct Config {
  std::string socket = "/run/spin/spind.sock";
  std::string device = "cpu";  // or cuda, or cuda:UUID
  uint64_t slab_bytes = 256 << 20;
  std::string shm_dir = "/dev/shm";
  std::string admin_address = "127.0.0.1:9464";
  bool stay_up = false;           // where it cannot serve: tell so, and do not exit
  std::vector<uid_t> allow_uids;  // default: spind's own user and root
  std::string policy_file;        // whose values are the defaults of the policy's flags
  Policy policy;
  std::optional<kernels::Dtype> state_dtype;  // unset: fp32 on the CPU, bf16 on a GPU
  int step_queue = 256;
  int control_queue = 256;
  absl::Duration wait_limit = absl::Seconds(1);
  absl::Duration quarantine = absl::Milliseconds(500);
  std::string log_level = "info";
  std::string log_format = "text";
};

// The config, or the exit code with which to leave at once: 0 after --help or --version, 2 after a
// mistake, which has been explained on stderr in one sentence. A spind that must stay up gets both
// a mistake, as server/start_failure.h has them, and a config in which only stay_up, the admin
// address and the log's format were read.
struct ConfigOrExit {
  std::optional<Config> config;
  int exit_code = 0;
  absl::Status mistake;
  std::vector<std::string> warnings;  // with a config: sentences for its log
};
ConfigOrExit ReadConfig(int argc, char** argv);

}  // namespace spin::server
