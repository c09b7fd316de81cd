// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "spin/session.h"

// The decode loop of an engine whose scores stay on its GPU, and that may replay captured CUDA
// graphs:
//
//   auto loop = spin::DeviceLoop::Create(session.get(), buffers);
//   capture, once for each batch size:                       // all launches are capturable
//     (*loop)->SelectAndCompact(batch, stream);
//     for each layer: score through kept_table and kept_slots, top-K, (*loop)->Remap(...)
//     (*loop)->Observe({0, layers}, scores, batch, stream);  // or per layer, right after scoring
//   with the sidecar executor Stage takes the place of Observe
//   each step:
//     (*loop)->BeginStep({{&request, position, 1}, ...}, stream);   // one small copy
//     replay the graph on the stream
//     (*loop)->EndStep(stream);
//
// Lists may also be made a step ahead: Compact where SelectAndCompact stands, and Select after
// Observe. That is better where the GPU idles between steps while the host prepares the next one,
// since Select there is free; elsewhere it costs a launch more.
//
// BeginStep decides on the host, without waiting for the device, which rows use their lists; the
// launches read its decisions from device memory. So one graph serves every step: requests come, go
// and grow, spind dies and comes back, the policy is switched off, and the addresses in the graph
// stay valid. Whatever goes wrong, kept_table and kept_slots are those of the full scan.
//
// Executors. Inline: lists are made, and Audit and Observe run, in the graph. Sidecar: Stage copies
// the scores to spind, which does all that on the GPU meanwhile; BeginStep and EndStep order the
// two on the device, without an rpc or a wait on the host. The stream then waits for spind at the
// beginning of a step, in a kernel that ends by itself after SessionOptions::step_timeout. Launches
// that an executor has no use for do nothing, so that one graph may hold those of both.
namespace spin {

// Where the engine has what the launches read and write: memory of its device (of the host with
// device_uuid "CPU"). Addresses are fixed as long as a graph that names them lives. Shapes are in C
// order; R = rows of the launch, L = layers, D = max_next_n, T = table_stride.
struct DeviceBuffers {
  const int32_t* block_table = nullptr;  // [R][T] physical block of each logical block
  int32_t table_stride = 0;              // T: at least ceil(max_slots / block_slots)
  int32_t* kept_table = nullptr;         // out [L][R][T] the same, of kept blocks only
  int32_t* kept_slots = nullptr;         // out [L][R][D] slots to score; 0 past next_n
  int32_t* kept_blocks = nullptr;        // out [L][R][T] logical kept blocks; null: no Remap
  // A row keeps ceil(its last kept_slots / block_slots) blocks; entries after those are left as
  // they were. All blocks are those of (position + next_n) / tokens_per_slot slots, rounded down.
};

struct Layers {
  int first = 0;
  int count = 0;
};

// Scores on the device: element c of verifier row d of row r of layer l is data[l * layer_stride +
// r * row_stride + d * draft_stride + c], strides in elements. Elements follow the row's kept
// blocks in order, as kept_table does. Must stay as they are until Observe has run.
struct DeviceScores {
  const void* data = nullptr;
  ElementType type = ElementType::kFloat32;
  int64_t layer_stride = 0;  // of the whole tensor: data is that of layer 0, whatever the launch
  int64_t row_stride = 0;
  int64_t draft_stride = 0;
};

// What BeginStep has decided for a row.
struct RowPlan {
  bool sparse = false;            // its lists are used, as far as they are what they should be
  Reason reason = Reason::kNone;  // why not
};

// Use from one thread at a time. `stream` is a cudaStream_t; null is the legacy default stream.
class DeviceLoop {
 public:
  // The session's device_uuid names the device of the buffers. All memory is allocated and all
  // kernels are loaded here, whether spind is there or not. The session must outlive the loop, and
  // must not be used with BeginStep.
  static absl::StatusOr<std::unique_ptr<DeviceLoop>> Create(Session* session,
                                                            const DeviceBuffers& buffers);
  // The device must have run the loop's launches, and no graph with them may be replayed any more.
  ~DeviceLoop();

  // Starts a step: decides about each row and enqueues the decisions. Rows of a launch past those
  // given here have no slots: kept_slots 0, and nothing else is done. So have all rows before the
  // first step, where an engine may warm its launches up, and those of a step that was refused. At
  // most max_requests rows, each naming another request.
  absl::Status BeginStep(absl::Span<const StepRow> rows, void* stream);
  RowPlan plan(int row) const;
  // Whether Audit has something to do in this step, from BeginStep to EndStep. An engine may leave
  // it out of its graphs and launch it by itself in these steps.
  bool audit_due() const;

  // With drafts (max_next_n > 1), after the verdict and before Observe and Select of this step or,
  // with the sidecar executor, its EndStep: how many verifier rows of each row were accepted.
  // Without drafts BeginStep knows it.
  absl::Status Accept(const EndOptions& verdict, void* stream);

  // Ends the step, after its launches were enqueued. A step that is not ended is forgotten: its
  // rows go on with a full scan.
  absl::Status EndStep(void* stream);

  // The launches, over the first `rows` rows (1 to max_requests). They only check their arguments;
  // faults of the device come back from whatever the engine calls next.

  // Inline executor: makes the lists of this step, of all layers, and does what Compact does. The
  // sidecar executor's lists are there: it is Compact.
  absl::Status SelectAndCompact(int rows, void* stream);
  // Makes kept_table, kept_slots and kept_blocks of all layers, of lists that are there. Before the
  // scores of the step.
  absl::Status Compact(int rows, void* stream);
  // Turns positions in the compacted rows of one layer into slots: topk is [R][D][topk_stride];
  // negative entries stay, and so do those past the table.
  absl::Status Remap(int layer, int32_t* topk, int32_t topk_stride, int rows, void* stream);
  // Sidecar executor: copies the scores that Compact has asked for to spind. Before EndStep.
  absl::Status Stage(Layers layers, const DeviceScores& scores, int rows, void* stream);
  // Inline executor: compares audited rows with their lists. Before Observe. Audits share scratch
  // memory: launches of them follow one another.
  absl::Status Audit(Layers layers, const DeviceScores& scores, int rows, void* stream);
  // Inline executor: lets the scores enter the state.
  absl::Status Observe(Layers layers, const DeviceScores& scores, int rows, void* stream);
  // Inline executor: makes the lists of the next step, of all layers, for Compact. After Observe.
  absl::Status Select(int rows, void* stream);

 private:
  explicit DeviceLoop(std::unique_ptr<internal::DeviceLoopImpl> impl);
  std::unique_ptr<internal::DeviceLoopImpl> impl_;
};

}  // namespace spin
