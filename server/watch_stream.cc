// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "server/watch_stream.h"

#include <utility>

#include "absl/time/clock.h"
#include "server/codec.h"
#include "server/refusal.h"

namespace spin::server {
namespace {

absl::Duration IntervalOf(const v1::WatchStatsRequest& request) {
  if (!request.has_interval()) return absl::Seconds(1);
  return absl::Seconds(request.interval().seconds()) + absl::Nanoseconds(request.interval().nanos());
}

}  // namespace

WatchStream::WatchStream(const v1::WatchStatsRequest& request, const absl::Status& status,
                         SessionTable* sessions, std::function<v1::ServerInfo()> server_info,
                         grpc::CallbackServerContext* context, RpcMetrics* metrics)
    : session_id_(request.session_id()),
      interval_(IntervalOf(request)),
      sessions_(sessions),
      server_info_(std::move(server_info)),
      context_(context),
      metrics_(metrics) {
  if (status.ok()) {
    Send();
  } else {
    FinishOnce(status);
  }
}

void WatchStream::Send() {
  outgoing_.Clear();
  *outgoing_.mutable_taken_at() = ToProto(absl::Now());
  for (const auto& session : sessions_->All()) {
    if (session_id_ == 0 || session->identity().id == session_id_) {
      *outgoing_.add_sessions() = session->Stats();
    }
  }
  *outgoing_.mutable_server() = server_info_();
  StartWrite(&outgoing_);
}

void WatchStream::OnWriteDone(bool ok) {
  {
    absl::MutexLock lock(&mutex_);
    if (ok && !cancelled_) {
      waiting_ = true;
      alarm_.Set(absl::ToChronoTime(absl::Now() + interval_), [this](bool due) { OnAlarm(due); });
      return;
    }
  }
  FinishOnce(absl::CancelledError("the stream was cancelled"));
}

void WatchStream::OnAlarm(bool due) {
  bool cancelled;
  {
    absl::MutexLock lock(&mutex_);
    waiting_ = false;
    cancelled = cancelled_ || !due;
  }
  if (cancelled) {
    FinishOnce(absl::CancelledError("the stream was cancelled"));
  } else {
    Send();
  }
}

void WatchStream::OnCancel() {
  absl::MutexLock lock(&mutex_);
  cancelled_ = true;
  if (waiting_) alarm_.Cancel();  // OnAlarm finishes; a write under way fails by itself
}

void WatchStream::FinishOnce(const absl::Status& status) {
  const grpc::Status out = ToGrpc(status, context_);
  metrics_->CountStream(Method::kWatchStats, out.error_code());
  Finish(out);
}

void WatchStream::OnDone() { delete this; }

}  // namespace spin::server
