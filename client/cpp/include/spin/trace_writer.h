// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

// Records what an engine's indexer sees in consecutive decode steps of one request, as a trace that
// 'spinctl eval', 'tune' and 'replay' play (docs/trace-format.md).
//
//   auto writer = spin::TraceWriter::Create(options);
//   (*writer)->PutKeys(layer, first_slot, k, k_scale);  // the prompt's, and then each new slot's
//   (*writer)->PutStep(layer, query_slot, q, w);        // each decode step
//   (*writer)->Finish();
namespace spin {

struct TraceWriterOptions {
  std::string path;                      // must not be there; appears when Finish succeeds
  std::vector<int> layers;               // the model's numbers of the layers to record, ascending
  int heads = 0;                         // of the indexer: 1 to 1024
  int dim = 0;                           // of a head and of a key: 1 to 1024
  int max_slots = 0;                     // of the longest context to record: 1 to 4194304
  int max_steps = 0;                     // at least 2; what comes later is ignored
  int64_t max_bytes = int64_t{4} << 30;  // of the file
};

// Not thread-safe; not for the decode loop's critical path: keys go to the file as they come,
// queries stay in memory until Finish, layers * max_steps * heads * (dim + 4) bytes at most.
class TraceWriter {
 public:
  static constexpr int64_t kHeaderBytes = 4096;  // of the file, before its tensors

  // INVALID_ARGUMENT names the option. RESOURCE_EXHAUSTED: such a trace may take more than
  // max_bytes; the message says how much. ALREADY_EXISTS: something is at path, which stays as it
  // is. Other codes are the system's. Only the user of this process may read the file (mode 0600).
  static absl::StatusOr<std::unique_ptr<TraceWriter>> Create(const TraceWriterOptions& options);

  // Removes the unfinished file.
  virtual ~TraceWriter() = default;

  // Keys of the slots from `first_slot` on, of the layer with this index in options.layers. `k`:
  // FP8 E4M3 codes [slots, dim]; `k_scale`: [slots]. Slots may come in any order, and again.
  // INVALID_ARGUMENT: a size or a slot out of range.
  virtual absl::Status PutKeys(int layer, int first_slot, absl::Span<const uint8_t> k,
                               absl::Span<const float> k_scale) = 0;

  // The query at slot `query_slot`, which is one more in each step. `q`: FP8 E4M3 codes
  // [heads, dim]; `w`: [heads], the query's scale and the softmax scale multiplied in.
  // INVALID_ARGUMENT: a size is wrong, or the slot is not the next one.
  virtual absl::Status PutStep(int layer, int query_slot, absl::Span<const uint8_t> q,
                               absl::Span<const float> w) = 0;

  // Whether max_steps steps, or max_slots slots, are recorded in every layer.
  virtual bool Full() const = 0;

  // Writes the trace: the steps that every layer has. FAILED_PRECONDITION: there are fewer than
  // two, or keys that they see are missing; the message says which. ALREADY_EXISTS: something came
  // to be at path meanwhile, another writer's trace perhaps; it stays as it is.
  virtual absl::Status Finish() = 0;
};

}  // namespace spin
