// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "kernels/device.h"
#include "server/session.h"
#include "spin/v1/step.pb.h"

// The sidecar executor: runs the decode steps of sessions on spind's device. Lives on the step
// thread, which alone touches a request's history.
namespace spin::server {

class StepExecutor {
 public:
  // `wait_limit` bounds every wait for an engine's timeline word. All steps run on `stream`.
  StepExecutor(absl::Duration wait_limit, kernels::Stream stream)
      : wait_limit_(wait_limit), stream_(stream) {}

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
  absl::Status WaitForEngine(Session& session, uint64_t value, absl::FunctionRef<bool()> abandoned);

  const absl::Duration wait_limit_;
  const kernels::Stream stream_;
};

}  // namespace spin::server
