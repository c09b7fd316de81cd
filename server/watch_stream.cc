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
  return absl::Seconds(request.interval().seconds()) +
         absl::Nanoseconds(request.interval().nanos());
}

}  // namespace

void WatchStreams::Add(WatchStream* stream) {
  absl::MutexLock lock(&mutex_);
  open_.insert(stream);
  if (stopped_) stream->Stop();
}

void WatchStreams::Remove(WatchStream* stream) {
  absl::MutexLock lock(&mutex_);
  open_.erase(stream);
}

void WatchStreams::StopAll() {
  absl::MutexLock lock(&mutex_);
  stopped_ = true;
  for (WatchStream* stream : open_) stream->Stop();
}

WatchStream::WatchStream(const v1::WatchStatsRequest& request, const absl::Status& status,
                         SessionTable* sessions, WatchStreams* streams,
                         std::function<v1::ServerInfo()> server_info,
                         grpc::CallbackServerContext* context, RpcMetrics* metrics)
    : session_id_(request.session_id()),
      interval_(IntervalOf(request)),
      sessions_(sessions),
      streams_(streams),
      server_info_(std::move(server_info)),
      context_(context),
      metrics_(metrics) {
  streams_->Add(this);
  if (status.ok()) {
    Send();
  } else {
    Finish(status);
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
  absl::Status end;
  {
    absl::MutexLock lock(&mutex_);
    if (!ok) end_.Update(absl::CancelledError("the stream was cancelled"));
    if (end_.ok()) {
      waiting_ = true;
      alarm_.Set(absl::ToChronoTime(absl::Now() + interval_), [this](bool) { OnAlarm(); });
      return;
    }
    end = end_;
  }
  Finish(end);
}

void WatchStream::OnAlarm() {
  absl::Status end;
  {
    absl::MutexLock lock(&mutex_);
    waiting_ = false;
    end = end_;
  }
  if (end.ok()) {
    Send();
  } else {
    Finish(end);
  }
}

// Whatever is under way, alarm or write, finishes the stream when it is over.
void WatchStream::EndWith(const absl::Status& why) {
  absl::MutexLock lock(&mutex_);
  end_.Update(why);
  if (waiting_) alarm_.Cancel();
}

void WatchStream::OnCancel() { EndWith(absl::CancelledError("the stream was cancelled")); }

void WatchStream::Stop() {
  EndWith(Refuse(absl::StatusCode::kUnavailable, v1::ERROR_REASON_SHUTTING_DOWN, "",
                 "spind is stopping"));
}

void WatchStream::Finish(const absl::Status& status) {
  const grpc::Status out = ToGrpc(status, context_);
  metrics_->CountStream(Method::kWatchStats, out.error_code());
  ServerWriteReactor::Finish(out);
}

void WatchStream::OnDone() {
  streams_->Remove(this);
  delete this;
}

}  // namespace spin::server
