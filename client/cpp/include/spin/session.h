// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "spin/options.h"
#include "spin/recording.h"

// The client library of Spin: asks spind which KV blocks each request should score in each decode
// step, and hands the scores back.
//
//   auto session = spin::Session::Create(options);             // only bad options fail
//   spin::Request request = (*session)->OpenRequest("chat-17", prompt_slots);
//   for (;;) {                                                 // the decode loop
//     spin::Step step = (*session)->BeginStep({{&request, position, 1}});
//     for (int layer = 0; layer < layers; ++layer) {
//       step.Kept(layer, 0).blocks ...                         // score these blocks only
//       step.PutScores(layer, {scores, ...});                  // compacted, in list order
//     }
//     step.End();
//   }
//
// Nothing here throws, and every wait is bounded. Whatever goes wrong (no spind, a deadline, a
// restart, no room, bad input) the answer is *all blocks* with a reason that is counted, so that
// the engine's output is exactly that of a full scan; the session reconnects by itself.
namespace spin {

// Why a row keeps all blocks. kNone, kAudit and kOff are not fallbacks.
enum class Reason {
  kNone = 0,   // a prediction was used
  kCold,       // no history yet: the first step of a request, or the first after a gap
  kNoSidecar,  // spind is unreachable, restarting or refusing other than for want of room
  kDeadline,   // spind did not answer in time
  kEpoch,      // spind restarted since the request was opened
  kCapacity,   // no room for the session; the request has no state, or too little for its context
  kStale,      // the list found was not made for this step
  kPosition,   // the position went backward or jumped
  kInvalid,    // bad input, or a list that failed validation
  kInternal,   // a fault of device, spind or this library
  kAudit,      // scored in full on purpose, to measure the miss rate
  kOff,        // the policy's off switch
};
inline constexpr int kReasonCount = 12;

// Lower-case name as in metrics, such as "no_sidecar".
absl::string_view ReasonName(Reason reason);
constexpr bool IsFallback(Reason reason) {
  return reason != Reason::kNone && reason != Reason::kAudit && reason != Reason::kOff;
}

namespace internal {
class DeviceLoopImpl;
class RequestState;
class RowPlanner;
class SessionImpl;
}  // namespace internal

// A request of the engine. Move-only; closes when destroyed, which never blocks the decode loop.
// Must not outlive its session.
class Request {
 public:
  Request() = default;
  Request(Request&&) noexcept = default;
  Request& operator=(Request&& other) noexcept;
  ~Request();

  // OK if the request has state at spind; else why not. Such a request keeps all blocks, and is
  // tried again in the background.
  absl::Status status() const;

  // Slots of context there is room for. Grows by itself ahead of need; see Session::Extend.
  int64_t capacity_slots() const;

 private:
  friend class Session;
  friend class internal::RowPlanner;
  explicit Request(std::shared_ptr<internal::RequestState> state) : state_(std::move(state)) {}
  std::shared_ptr<internal::RequestState> state_;
};

// One request in one decode step.
struct StepRow {
  const Request* request = nullptr;
  int64_t position =
      0;           // token position of the first verifier row: the position of the newest token
  int next_n = 1;  // verifier rows (1 + draft tokens), at position, position + 1, ...
};

// The blocks to score for one row of one layer. Of a row that the step does not have, and of one
// whose position is negative, nobody knows the blocks: none are named, with Reason::kInvalid, and
// the engine scores the context that it knows of.
struct KeptBlocks {
  absl::Span<const int32_t> blocks;  // logical block indices, ascending; all of them if `all`
  bool all = true;
  Reason reason = Reason::kNone;  // why all of them; kNone otherwise
};

// Scores of one layer: element c of verifier row d of step row r is data[r * row_stride + d *
// draft_stride + c], strides in elements. Elements follow the row's kept blocks in order: c = j *
// block_slots + offset in the j-th kept block; the last block of the context may be partial. Only
// read, only during the call.
struct Scores {
  const void* data = nullptr;
  ElementType type = ElementType::kFloat32;
  int64_t row_stride = 0;
  int64_t draft_stride = 0;
};

struct EndOptions {
  // Verifier rows accepted of each row, in order from the first: 1 to its next_n. Empty: all of
  // them.
  absl::Span<const int> accepted;
  // next_n of each row's next step. Empty: the same as in this one.
  absl::Span<const int> next_n;
};

// One decode step in progress. Dropping it without End() forgets its scores; the rows then score
// everything in their next step. Use from one thread; at most one step of a session is in progress.
class Step {
 public:
  Step(Step&& other) noexcept : session_(other.session_), serial_(other.serial_) {
    other.session_ = nullptr;
  }
  Step& operator=(Step&&) = delete;
  ~Step();

  // The blocks to score. Valid until the step ends. Out-of-range arguments give an empty list.
  KeptBlocks Kept(int layer, int row) const;

  // Hands back the scores of a layer, for all rows, right after it was scored: the buffer may be
  // reused when the call returns. Every layer once, in any order.
  void PutScores(int layer, const Scores& scores);

  // Lets the scores enter the state and asks for the next step's blocks.
  void End(const EndOptions& options = {});

 private:
  friend class Session;
  Step(internal::SessionImpl* session, uint64_t serial) : session_(session), serial_(serial) {}
  internal::SessionImpl* session_;
  uint64_t serial_;  // tells a step that was superseded by another BeginStep
};

// What the client has counted since the session was created.
struct SessionStats {
  uint64_t steps = 0;
  uint64_t rows_by_reason[kReasonCount] = {};  // rows per Reason; kNone = used a prediction
  uint64_t reconnects = 0;
  double predict_seconds = 0;  // inline executor: in Spin's own kernels
  double observe_seconds = 0;
  double rpc_seconds = 0;  // sidecar executor: waiting for Step
};

// One model on one engine rank. Thread-safe, except that steps are taken one at a time.
class Session {
 public:
  // INVALID_ARGUMENT names a bad option. Connects in the background: until then, and as long as
  // spind is missing, the session keeps all blocks (kNoSidecar).
  static absl::StatusOr<std::unique_ptr<Session>> Create(const SessionOptions& options);
  ~Session();

  // Waits until the session is open at spind, at most `timeout`; else says why it is not. Optional:
  // steps before that keep all blocks.
  absl::Status WaitUntilReady(absl::Duration timeout);

  // OK while the session is open at spind; else the last error.
  absl::Status status() const;

  // Opens a request with room for `slots` slots of context; waits at most control_timeout, and not
  // at all while spind lets calls time out (the request is opened later, by itself). `key` (1 to
  // 256 bytes) is the engine's own id of the request: equal keys explore alike on all ranks. See
  // Request::status().
  Request OpenRequest(absl::string_view key, int64_t slots);

  // The same, starting from the history of `parent` (parallel sampling). No step may be in
  // progress; waits until the device has run what was enqueued of the parent's last one.
  Request ForkRequest(const Request& parent, absl::string_view key, int64_t slots);

  // Makes room for `slots` slots now; waits at most control_timeout. Rarely needed: state grows by
  // itself.
  absl::Status Extend(const Request& request, int64_t slots);

  // Starts a decode step of at most max_requests rows, each naming another request. Reads memory
  // only: no rpc. For scores in memory of the host; on a GPU use spin::DeviceLoop, here all rows
  // keep all blocks.
  Step BeginStep(absl::Span<const StepRow> rows);

  SessionStats stats() const;

  // The recording that is wanted, 0 if none is: one atomic load. spin::Recorder does the rest.
  uint64_t recording_id() const;
  // What it asks for; id 0 if none is wanted. Takes a lock: not for each step.
  Recording recording() const;
  // How far it is. Sent within a second; ignored for any but the newest recording.
  void ReportRecording(uint64_t id, const RecordingProgress& progress);

 private:
  friend class DeviceLoop;
  explicit Session(std::unique_ptr<internal::SessionImpl> impl);
  std::unique_ptr<internal::SessionImpl> impl_;
};

}  // namespace spin
