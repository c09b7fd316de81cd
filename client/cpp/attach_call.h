// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <grpcpp/client_context.h>
#include <grpcpp/support/client_callback.h>

#include <functional>
#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "client/cpp/opened_session.h"
#include "client/cpp/recording_box.h"
#include "spin/v1/session.pb.h"

namespace spin::internal {

// The liveness stream, client side: as long as it is up, spind keeps the session. Policies come
// down into the session, reports go up.
class AttachCall final : private grpc::ClientBidiReactor<v1::AttachRequest, v1::AttachResponse> {
 public:
  // Attaches. `on_end` is called once, from a gRPC thread, when the stream is over. `recording`,
  // where orders of spind go, outlives the call.
  AttachCall(std::shared_ptr<OpenedSession> session, RecordingBox* recording,
             std::function<void()> on_end);

  // Ends the stream and waits for its end.
  ~AttachCall() override;

  // Waits until spind has accepted the stream; else says why not.
  absl::Status WaitUntilAttached(absl::Duration timeout);

  // Sends a report; dropped if the message before is still on its way.
  void Report(v1::ClientReport report);

  // Sends a last report and goodbye, and waits until spind has ended the stream, at most `timeout`.
  void Close(v1::ClientReport report, absl::Duration timeout);

 private:
  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnDone(const grpc::Status& status) override;
  void Send(v1::ClientReport report, bool closing) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::shared_ptr<OpenedSession> session_;
  RecordingBox* const recording_;
  const std::function<void()> on_end_;
  grpc::ClientContext context_;
  v1::AttachResponse incoming_;

  absl::Mutex mutex_;
  v1::AttachRequest outgoing_ ABSL_GUARDED_BY(mutex_);
  bool writing_ ABSL_GUARDED_BY(mutex_) = true;  // the first message
  bool attached_ ABSL_GUARDED_BY(mutex_) = false;
  bool no_more_writes_ ABSL_GUARDED_BY(mutex_) = false;
  bool done_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace spin::internal
