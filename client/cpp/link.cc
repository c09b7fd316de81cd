// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "client/cpp/link.h"

#include <pthread.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/cpp/options_check.h"

namespace spin::internal {
namespace {

constexpr absl::Duration kReportInterval = absl::Seconds(1);

absl::Status At(const std::string& socket, const absl::Status& status) {
  return absl::Status(status.code(), absl::StrCat("spind at ", socket, ": ", status.message()));
}

}  // namespace

Link::Link(const SessionOptions& options, StepCounts* counts)
    : options_(options), socket_(SocketOf(options)), counts_(counts), thread_([this] { Run(); }) {}

Link::~Link() {
  mailbox_->PostStop();
  thread_.join();
}

std::shared_ptr<OpenedSession> Link::current() const {
  absl::MutexLock lock(&mutex_);
  return current_ != nullptr && !current_->ended() ? current_ : nullptr;
}

absl::Status Link::status() const {
  absl::MutexLock lock(&mutex_);
  return status_;
}

void Link::SetCurrent(std::shared_ptr<OpenedSession> session, absl::Status status) {
  absl::MutexLock lock(&mutex_);
  current_.swap(session);  // the old one is unmapped after the lock
  refused_for_room_ = absl::IsResourceExhausted(status);
  status_ = std::move(status);
}

absl::Status Link::WaitUntilReady(absl::Duration timeout) const {
  absl::MutexLock lock(&mutex_);
  const auto ready = [this]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return status_.ok(); };
  mutex_.AwaitWithTimeout(absl::Condition(&ready), timeout);
  return status_;
}

bool Link::KeepHouse() {
  absl::MutexLock lock(&housekeeping_mutex_);
  return !housekeeping_.release || housekeeping_.release();
}

bool Link::MayBeWritten(const RequestState& request) {
  absl::MutexLock lock(&housekeeping_mutex_);
  return housekeeping_.may_write && housekeeping_.may_write(request);
}

void Link::Run() {
  pthread_setname_np(pthread_self(), "spin-link");
  do {
    const absl::Status connected = Connect();
    if (connected.ok()) {
      Serve();
      Disconnect();
    } else {
      attach_.reset();
      SetCurrent(nullptr, At(socket_, connected));
    }
    KeepHouse();
  } while (!mailbox_->WaitForStop(options_.reconnect_interval));
}

absl::Status Link::Connect() {
  auto control = std::make_shared<ControlClient>(socket_);
  v1::OpenSessionResponse opened;
  absl::Status status = control->OpenSession(ToProto(options_), options_.control_timeout, &opened);
  if (!status.ok()) return status;
  // Nobody has used the session yet: its memory need not be kept from others for a while.
  const auto give_up = [&](const absl::Status& why) {
    v1::CloseSessionRequest close;
    close.set_session_id(opened.session_id());
    (void)control->CloseSession(close, options_.control_timeout);
    return why;
  };
  auto session = OpenedSession::Map(control, opened);
  if (!session.ok()) return give_up(session.status());
  mailbox_->ClearStreamEnd();
  attach_ = std::make_unique<AttachCall>(*session, &recording_,
                                         [mailbox = mailbox_] { mailbox->PostStreamEnd(); });
  status = attach_->WaitUntilAttached(options_.control_timeout);
  if (!status.ok()) return give_up(status);
  counts_->StartLife();
  absl::MutexLock lock(&control_mutex_);
  (void)mailbox_->TakeClosed();  // what was closed in earlier lives is gone with them
  to_close_.clear();
  to_reopen_.clear();
  OpenAll(**session, LiveRequests(), Until());
  SetCurrent(*session, absl::OkStatus());
  return absl::OkStatus();
}

void Link::Serve() {
  absl::Time next_report = absl::Now() + kReportInterval;
  while (mailbox_->WaitForWork(next_report - absl::Now())) {
    DoChores();
    KeepHouse();
    if (absl::Now() < next_report) continue;
    RetryRefused();
    attach_->Report(Report());
    next_report = absl::Now() + kReportInterval;
  }
}

v1::ClientReport Link::Report() {
  v1::ClientReport report = counts_->Report(options_.executor == Executor::kInline);
  recording_.AddTo(&report);
  return report;
}

void Link::Disconnect() {
  SetCurrent(nullptr,
             absl::UnavailableError(absl::StrCat("spind at ", socket_, ": the session has ended")));
  if (mailbox_->stopping()) {
    attach_->Close(Report(), options_.control_timeout);
  } else {
    counts_->CountReconnect();
  }
  attach_.reset();
  recording_.Clear();
  absl::MutexLock lock(&control_mutex_);
  silent_ = false;  // the next one may answer
}

}  // namespace spin::internal
