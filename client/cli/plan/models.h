// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace spin::cli {

// The indexers of published models, as far as their state goes.
struct IndexerModel {
  std::string name;
  int layers;  // that have an indexer
  int topk;    // K, in slots
  int tokens_per_slot;
  int block;  // slots of an indexer KV page
};

const std::vector<IndexerModel>& KnownModels();

}  // namespace spin::cli
