// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "client/cli/policy/file_flag.h"

#include "absl/status/statusor.h"
#include "policy_file/policy_file.h"

namespace spin::cli {

CLI::Option* AddPolicyFileFlag(CLI::App* command, const std::string& name, v1::Policy* policy) {
  const auto read = [name, policy](const std::string& path) {
    const absl::StatusOr<v1::Policy> file = policy_file::Read(path);
    if (!file.ok()) throw CLI::ValidationError(name, std::string(file.status().message()));
    *policy = *file;
  };
  return command
      ->add_option_function<std::string>(
          name, read, "Policy file, such as 'spinctl tune' writes; other flags win over it")
      ->type_name("FILE");
}

}  // namespace spin::cli
