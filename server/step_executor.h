// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <memory>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "kernels/device.h"
#include "server/session.h"
#include "server/step_plan.h"
#include "spin/v1/step.pb.h"

// The sidecar executor: runs the decode steps of sessions on spind's device. Lives on the step
// thread, which alone touches a request's history.
namespace spin::server {

class StepExecutor {
 public:
  // `wait_limit` bounds every wait for an engine's timeline word. The device must outlive the
  // executor, which takes all it needs of it here.
  static absl::StatusOr<std::unique_ptr<StepExecutor>> Create(kernels::Device* device,
                                                              absl::Duration wait_limit);

  // Observes the staged scores and predicts the next lists. Rows are refused one by one, in the
  // response; the call fails only as a whole (session ended, engine's word not reached, device
  // fault). A caller who gives up while the step waits for the engine's word ends the wait: the
  // step then did not happen.
  absl::Status Step(
      Session& session, const v1::StepRequest& request, v1::StepResponse* response,
      absl::FunctionRef<bool()> abandoned = [] { return false; });

  // Applies the verdict on drafts that a Step left waiting, and predicts.
  absl::Status CommitDrafts(Session& session, const v1::CommitDraftsRequest& request,
                            v1::CommitDraftsResponse* response);

 private:
  // Values of the timeline words; 0: no wait, no word.
  struct Words {
    uint64_t wait = 0;
    uint64_t done = 0;
  };
  // Points on the stream.
  struct Markers {
    kernels::Marker admitted;
    kernels::Marker observed;
    kernels::Marker predicted;
    kernels::Marker over;
  };

  StepExecutor(kernels::Device* device, absl::Duration wait_limit, kernels::Stream stream,
               const Markers& markers, kernels::DeviceMemory given_up,
               kernels::DeviceMemory admission);
  absl::Status Run(Session& session, StepPlan& plan, const Words& words,
                   absl::FunctionRef<bool()> abandoned);
  absl::Status Hold(const Session& session, const kernels::WordWait& wait,
                    absl::FunctionRef<bool()> abandoned);
  absl::Status Launch(Session& session, const StepPlan& plan, const Words& words,
                      const kernels::WordWait& wait);
  absl::Status Settle(const Session& session, const kernels::WordWait& wait,
                      absl::FunctionRef<bool()> abandoned);
  absl::Status WhyNot(const Session& session, absl::FunctionRef<bool()> abandoned) const;

  kernels::Admission& admission() const {
    return *reinterpret_cast<kernels::Admission*>(admission_.get());
  }

  kernels::Device* const device_;
  const absl::Duration wait_limit_;
  const kernels::Stream stream_;
  const Markers markers_;
  const kernels::DeviceMemory given_up_;   // uint64: the ticket of the last wait given up
  const kernels::DeviceMemory admission_;  // of the host: what became of the step
  uint64_t ticket_ = 0;
};

}  // namespace spin::server
