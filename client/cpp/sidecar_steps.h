// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/cpp/step_calls.h"
#include "client/cpp/step_counts.h"
#include "client/cpp/step_state.h"
#include "kernels/binding.h"
#include "kernels/device.h"

namespace spin::internal {

// The sidecar executor's part in a DeviceLoop: hands each step over to spind on the device, by
// timeline words, and never waits on the host. Lists are supposed to be made as asked; an answer
// that says otherwise corrects the histories when it comes, and meanwhile the stamps decide.
//
//   engine's stream   [Compact, scores, Stage] engine_done=t   (spin_done>=t) [Compact, scores, ...
//   spind's stream                   (engine_done>=t) [Observe, Select] spin_done=t
//
// The waits, in brackets, are bounded. Whatever goes wrong, steps are not handed over any more
// until spind has answered a probe: it is done with all of them then, because it takes them in
// order.
class SidecarSteps {
 public:
  static absl::StatusOr<std::unique_ptr<SidecarSteps>> Create(kernels::Device* device,
                                                              absl::Duration wait_limit,
                                                              StepCounts* counts);

  // Before a step over `session` (null: there is none) is planned: takes the answers that have
  // come.
  void TakeAnswers(OpenedSession* session);

  // Why no step may be handed over at present; kNone: it may.
  Reason trouble() const { return trouble_; }

  // Steps whose answers have not come, which hold their requests. Thread-safe.
  const StepCalls& calls() const { return calls_; }

  // Holds the stream until spind is done with the step before. After the step's control block has
  // been sent, of which `binding` is a part on the device, and before anything reads it.
  absl::Status Expect(OpenedSession& session, kernels::Binding* binding, kernels::Stream stream);

  // Has spind run the rest of the step, whose scores are staged when the stream gets here. False if
  // it was not handed over.
  absl::StatusOr<bool> HandOver(const StepState& step, kernels::Stream stream);

 private:
  SidecarSteps(kernels::Device* device, absl::Duration wait_limit, StepCounts* counts,
               kernels::DeviceMemory late);
  void StartLife(uint64_t session_id);
  void TakeAnswer(const StepCalls::Call& call);
  void Probe(OpenedSession& session);
  uint32_t late() const;

  kernels::Device* const device_;
  const absl::Duration wait_limit_;
  StepCounts* const counts_;
  const kernels::DeviceMemory late_;  // uint32, of the host: steps that found spind late
  uint32_t late_seen_ = 0;

  // Of the life of the session that steps go to; timeline values.
  uint64_t session_id_ = 0;
  uint64_t begun_ = 0;
  uint64_t handed_over_ = 0;
  uint64_t answered_ = 0;
  Reason trouble_ = Reason::kNone;

  StepCalls calls_;
};

}  // namespace spin::internal
