// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"

namespace spin {

enum class ElementType { kFloat32, kBFloat16 };

// Who runs Spin's kernels.
enum class Executor {
  kInline,   // this process, over the mapped slab: no rpc in the decode loop
  kSidecar,  // spind: one rpc per decode step
};

// The shape of the model's indexer. A slot is one indexer entry (1 token in V3.2 and GLM-5, 4 in
// V4).
struct Model {
  std::string name;         // labels metrics: 1 to 128 printable ASCII characters
  int layers = 0;           // that have an indexer: 1 to 128
  int block_slots = 64;     // indexer KV page: 16, 32, 64 or 128
  int topk = 0;             // K: 1 to 2048 slots
  int tokens_per_slot = 1;  // 1 to 64
  int64_t max_slots = 0;    // longest context of a request: 1 to 4194304
};

// Who decides how many blocks each layer keeps: the sparsity given; spind, with the same total;
// spind, with the total that holds a miss rate. The last two need audits. With tensor-parallel
// ranks that must have equal lists, only kFixed will do: each session learns for itself.
enum class BudgetMode { kFixed, kCalibrated, kTargetMiss };

// What to change in the policy of spind for this session; unset fields keep spind's value.
struct PolicyOverrides {
  std::optional<double> sparsity;       // rho: share of blocks to skip, in [0, 1)
  std::vector<double> layer_sparsity;   // empty, or rho for each layer
  std::optional<double> exploration;    // gamma: share of kept blocks drawn at random, in [0, 1]
  std::optional<double> decay;          // alpha: weight of the past, in [0, 1)
  std::optional<uint64_t> seed;         // equal on all tensor-parallel ranks
  std::optional<uint32_t> audit_every;  // N: a step is audited with probability 1/N; 0 = never
  std::optional<bool> pin_first_block;  // keep block 0 always
  std::optional<bool> enabled;          // false keeps all blocks
  std::optional<BudgetMode> budget_mode;
  std::optional<double> target_miss;  // of kTargetMiss: mean share of missed top-K slots, in (0, 1)
  std::optional<double> min_sparsity;  // of kTargetMiss: bounds of the total, in [0, 1)
  std::optional<double> max_sparsity;
};

struct SessionOptions {
  std::string socket;  // path; empty: $SPIN_SOCKET, else /run/spin/spind.sock
  Model model;
  int max_requests = 64;  // open at a time: 1 to 512
  int max_next_n = 1;     // verifier rows of a request in a step: 1 to 8
  Executor executor = Executor::kInline;
  std::optional<ElementType> state;  // of the moving averages; unset: spind decides
  ElementType staged_scores = ElementType::kFloat32;  // where scores must outlive their layer
  std::string device_uuid;  // the engine's GPU, "GPU-..."; empty or "CPU": memory of the host
  PolicyOverrides policy;
  bool zero_init = false;  // unobserved entries are 0 instead of -infinity
  // Lets 'spinctl record' ask for traces, which hold data of users; the engine has a
  // spin::Recorder.
  bool allow_recording = false;
  std::string client_name;  // for people, at most 128 printable ASCII characters
  // Sidecar executor: the longest wait for spind, of the step rpc or, with a DeviceLoop, of the
  // engine's stream.
  absl::Duration step_timeout = absl::Milliseconds(50);
  absl::Duration control_timeout = absl::Seconds(2);            // of opening, growing, closing
  absl::Duration reconnect_interval = absl::Milliseconds(200);  // between attempts, without spind
};

inline constexpr char kDefaultSocket[] = "/run/spin/spind.sock";

}  // namespace spin
