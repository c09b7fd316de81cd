// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "client/cli/plan/models.h"

namespace spin::cli {

// From the models' published configurations.
const std::vector<IndexerModel>& KnownModels() {
  static const auto* const models = new std::vector<IndexerModel>{
      {"v3.2", 61, 2048, 1, 64},    {"v4-flash", 21, 512, 4, 64}, {"v4-pro", 30, 1024, 4, 64},
      {"glm-5.1", 78, 2048, 1, 64}, {"glm-5.2", 21, 2048, 1, 64},
  };
  return *models;
}

}  // namespace spin::cli
