// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "client/cpp/attach_call.h"
#include "client/cpp/mailbox.h"
#include "client/cpp/opened_session.h"
#include "client/cpp/recording_box.h"
#include "client/cpp/request_state.h"
#include "client/cpp/step_counts.h"
#include "spin/options.h"

namespace spin::internal {

// Keeps the session open at spind, from a thread of its own: connects, maps, attaches, re-opens
// after a restart, grows and closes requests, sends reports. The decode loop never waits for it.
// While spind lets calls time out, neither does the engine where it opens requests: the link's
// thread alone asks again, once a second. Thread-safe.
class Link {
 public:
  // `options` must have been checked; `counts` outlives the link.
  Link(const SessionOptions& options, StepCounts* counts);

  // Closes the session at spind if it can; bounded.
  ~Link();

  // The session as it is now; null without one.
  std::shared_ptr<OpenedSession> current() const;

  // OK while there is a session; else the last error.
  absl::Status status() const;
  absl::Status WaitUntilReady(absl::Duration timeout) const;
  // Whether there is none because spind has no room for it. For the decode loop: takes no lock.
  bool refused_for_room() const { return refused_for_room_; }

  // Opens a request now, if there is a session; it is re-opened by itself in every later one.
  // `parent` may be null; `copied` says whether the request is open with its history now.
  std::shared_ptr<RequestState> Open(absl::string_view key, int64_t slots, RequestState* parent,
                                     bool* copied);

  // Makes room now.
  absl::Status Extend(RequestState& request, int64_t slots);

  // Of what kernels may be using. To be called now and then, also without a session, but never by
  // the decode loop.
  struct Housekeeping {
    std::function<bool()> release;  // lets go of what they no longer use; false if some is left
    std::function<bool(const RequestState&)> may_write;  // into pages of the request
  };
  // It is the owner's that came last.
  void SetHousekeeping(const void* owner, Housekeeping housekeeping) {
    absl::MutexLock lock(&housekeeping_mutex_);
    housekeeper_ = owner;
    housekeeping_ = std::move(housekeeping);
  }
  // Unless it is another owner's by now. Does not return during a call.
  void EndHousekeeping(const void* owner) {
    absl::MutexLock lock(&housekeeping_mutex_);
    if (housekeeper_ == owner) housekeeping_ = {};
  }

  RecordingBox& recording() { return recording_; }

  // Asks for a chore, soon; for the decode loop.
  void Soon(Mailbox::Chore chore, std::shared_ptr<RequestState> request) {
    mailbox_->Post(chore, std::move(request));
  }

 private:
  struct ToOpen {
    std::shared_ptr<RequestState> request;
    RequestState* parent;  // or null
  };

  void Run();
  absl::Status Connect();
  void Serve();
  v1::ClientReport Report();
  void Disconnect();
  void DoChores();
  bool KeepHouse();
  absl::Time Until() const { return absl::Now() + options_.control_timeout; }
  // OK if a call about requests may be made that ends by then; else why not.
  absl::Status MayAsk(absl::Time until) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(control_mutex_);
  // What became of one that goes through spind's control queue: only those tell of that queue.
  void Heard(const absl::Status& status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(control_mutex_);
  bool Answers(OpenedSession& session) ABSL_EXCLUSIVE_LOCKS_REQUIRED(control_mutex_);
  bool MayBeWritten(const RequestState& request);
  void RetryRefused();
  // False if some are left: then nothing may be opened, which they might close.
  bool CloseGone(OpenedSession& session, absl::Time until)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(control_mutex_);
  void OpenAll(OpenedSession& session, absl::Span<const ToOpen> requests, absl::Time until)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(control_mutex_);
  absl::Status OpenSome(OpenedSession& session, absl::Span<const ToOpen> requests, absl::Time until)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(control_mutex_);
  bool IsBoundElsewhere(const RequestState& request) ABSL_LOCKS_EXCLUDED(mutex_);
  void ExtendOne(OpenedSession& session, RequestState& request, absl::Time until)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(control_mutex_);
  void Reopen(OpenedSession& session, const std::shared_ptr<RequestState>& request,
              absl::Time until) ABSL_EXCLUSIVE_LOCKS_REQUIRED(control_mutex_);
  std::vector<ToOpen> LiveRequests();
  // So that it is opened in every later life of the session.
  void Remember(const std::shared_ptr<RequestState>& request) ABSL_LOCKS_EXCLUDED(mutex_);
  void SetCurrent(std::shared_ptr<OpenedSession> session, absl::Status status);

  const SessionOptions options_;
  const std::string socket_;
  StepCounts* const counts_;
  RecordingBox recording_;
  const std::shared_ptr<Mailbox> mailbox_ = std::make_shared<Mailbox>();

  // Control calls about requests go one at a time, so that a close never overtakes or trails an
  // open of the same key. Held for about control_timeout at most: an engine may wait for it.
  absl::Mutex control_mutex_ ABSL_ACQUIRED_BEFORE(mutex_);
  std::vector<std::shared_ptr<RequestState>> to_reopen_ ABSL_GUARDED_BY(control_mutex_);
  std::vector<Mailbox::Closed> to_close_ ABSL_GUARDED_BY(control_mutex_);
  // A call has timed out, and none through the control queue was answered since. Changes under
  // control_mutex_ only.
  std::atomic<bool> silent_{false};
  std::atomic<bool> refused_for_room_{false};
  mutable absl::Mutex mutex_;
  std::shared_ptr<OpenedSession> current_ ABSL_GUARDED_BY(mutex_);
  absl::Status status_ ABSL_GUARDED_BY(mutex_) = absl::UnavailableError("not connected yet");
  std::vector<std::weak_ptr<RequestState>> requests_ ABSL_GUARDED_BY(mutex_);

  absl::Mutex housekeeping_mutex_;
  const void* housekeeper_ ABSL_GUARDED_BY(housekeeping_mutex_) = nullptr;
  Housekeeping housekeeping_ ABSL_GUARDED_BY(housekeeping_mutex_);

  std::unique_ptr<AttachCall> attach_;  // of the link's thread
  std::thread thread_;
};

}  // namespace spin::internal
