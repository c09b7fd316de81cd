// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/cpp/link.h"

// The link's calls about requests: opened, grown and closed at spind.
namespace spin::internal {
namespace {

constexpr absl::Duration kOpenPatience = absl::Milliseconds(20);  // a decode step
constexpr size_t kMaxItems = 512;  // of a batched call, as in proto/spin/v1/request.proto
constexpr size_t kOpenItems = 32;  // of those, where each is work: a call has one deadline

absl::Status FromProto(const v1::ErrorDetail& error) {
  const absl::StatusCode code =
      error.reason() == v1::ERROR_REASON_CAPACITY            ? absl::StatusCode::kResourceExhausted
      : error.reason() == v1::ERROR_REASON_DUPLICATE_REQUEST ? absl::StatusCode::kAlreadyExists
                                                             : absl::StatusCode::kInvalidArgument;
  return absl::Status(code, absl::StrCat(error.field(), ": ", error.message()));
}

void SetHandle(const RequestBinding& binding, v1::RequestHandle* handle) {
  handle->set_index(binding.index);
  handle->set_generation(binding.generation);
}

absl::Status Silent() {
  return absl::UnavailableError("spind lets calls time out; it is asked again every second");
}

// Whether a call may have been carried out although it failed.
bool Unanswered(const absl::Status& status) {
  return absl::IsDeadlineExceeded(status) || absl::IsUnavailable(status) ||
         absl::IsCancelled(status);
}

}  // namespace

absl::Status Link::MayAsk(absl::Time until) const {
  if (silent_) return Silent();
  // A call that times out sooner would say little of spind.
  if (until - absl::Now() >= options_.control_timeout / 4) return absl::OkStatus();
  return absl::DeadlineExceededError("no time is left to ask spind");
}

void Link::Heard(const absl::Status& status) { silent_ = absl::IsDeadlineExceeded(status); }

// Asks for what changes nothing: room for no request.
bool Link::Answers(OpenedSession& session) {
  v1::ExtendRequestsRequest extend;
  extend.set_session_id(session.id());
  v1::ExtendRequestItem& item = *extend.add_items();
  SetHandle({}, item.mutable_handle());
  item.set_slots(1);
  v1::ExtendRequestsResponse extended;
  Heard(session.control().ExtendRequests(extend, options_.control_timeout, &extended));
  return !silent_;
}

std::vector<Link::ToOpen> Link::LiveRequests() {
  absl::MutexLock lock(&mutex_);
  std::vector<ToOpen> live;
  std::vector<std::weak_ptr<RequestState>> kept;
  for (const auto& weak : requests_) {
    if (auto request = weak.lock()) {
      kept.push_back(weak);
      live.push_back({std::move(request), nullptr});
    }
  }
  requests_ = std::move(kept);
  return live;
}

void Link::OpenAll(OpenedSession& session, absl::Span<const ToOpen> requests, absl::Time until) {
  absl::Status status;
  for (; !requests.empty(); requests.remove_prefix(std::min(kOpenItems, requests.size()))) {
    const auto some = requests.subspan(0, kOpenItems);
    if (status.ok()) {
      status = OpenSome(session, some, until);
      continue;
    }
    for (const ToOpen& one : some) one.request->Unbind(status);  // they would only wait as long
  }
}

absl::Status Link::OpenSome(OpenedSession& session, absl::Span<const ToOpen> requests,
                            absl::Time until) {
  if (absl::Status status = MayAsk(until); !status.ok()) {
    for (const ToOpen& one : requests) one.request->Unbind(status);
    return status;
  }
  v1::OpenRequestsRequest open;
  open.set_session_id(session.id());
  for (const ToOpen& one : requests) {
    v1::OpenRequestItem& item = *open.add_items();
    item.set_key(one.request->key());
    item.set_slots(static_cast<uint64_t>(one.request->wanted_slots()));
    if (one.parent != nullptr) {
      SetHandle(one.parent->binding(), item.mutable_fork()->mutable_parent());
    }
  }
  v1::OpenRequestsResponse opened;
  const absl::Status status = session.control().OpenRequests(open, until - absl::Now(), &opened);
  const bool forks = requests.front().parent != nullptr;  // those wait for steps, in another queue
  if (!forks) Heard(status);
  for (int i = 0; i < open.items_size(); ++i) {
    RequestState& request = *requests[i].request;
    if (!status.ok() || i >= opened.results_size()) {
      request.Unbind(status);
      mailbox_->PostClosed(
          {request.key(), {.session_id = session.id()}});  // it may have worked all the same
    } else if (const v1::RequestResult& result = opened.results(i); result.has_error()) {
      const absl::Status refused = FromProto(result.error());
      // A call that nobody heard the answer of has opened it: not for us, so away with it.
      if (absl::IsAlreadyExists(refused) && Unanswered(request.status()) &&
          !IsBoundElsewhere(request)) {
        mailbox_->PostClosed({request.key(), {.session_id = session.id()}});
      }
      request.Unbind(refused);
    } else {
      request.Bind({session.id(), result.handle().index(), result.handle().generation(),
                    static_cast<int64_t>(result.capacity_slots())});
    }
  }
  return status;
}

// Whether another request of this key is open: then the key is the engine's mistake.
bool Link::IsBoundElsewhere(const RequestState& request) {
  absl::MutexLock lock(&mutex_);
  return std::any_of(requests_.begin(), requests_.end(), [&request](const auto& weak) {
    const auto other = weak.lock();
    return other != nullptr && other.get() != &request && other->key() == request.key() &&
           other->binding().session_id != 0;
  });
}

std::shared_ptr<RequestState> Link::Open(absl::string_view key, int64_t slots, RequestState* parent,
                                         bool* copied) {
  *copied = false;
  auto request =
      std::make_shared<RequestState>(std::string(key), slots,
                                     [mailbox = mailbox_, owner = getpid()](
                                         const std::string& gone, const RequestBinding& binding) {
                                       // A forked child must not close what its parent goes on
                                       // using.
                                       if (binding.session_id != 0 && getpid() == owner)
                                         mailbox->PostClosed({gone, binding});
                                     });
  const absl::Time until = Until();
  if (silent_) {
    request->Unbind(Silent());  // first, since the link's thread may open it as soon as it is known
    Remember(request);
    return request;
  }
  // A copy of pages that kernels are writing would be of no step.
  while (parent != nullptr && MayBeWritten(*parent) && absl::Now() < until) {
    absl::SleepFor(absl::Microseconds(200));
  }
  absl::MutexLock lock(&control_mutex_);
  Remember(request);
  const auto session = current();
  absl::Status why;
  if (session == nullptr) {
    why = status();
  } else if (parent != nullptr && parent->binding().session_id != session->id()) {
    why = absl::UnavailableError("the parent is not open in this session");
  }
  if (!why.ok()) {
    request->Unbind(std::move(why));
    return request;
  }
  // What the engine has just dropped may make room, once the device is done with it.
  const absl::Time patience = absl::Now() + kOpenPatience;
  for (;;) {
    const bool all_released = KeepHouse();
    if (!CloseGone(*session, until)) {
      request->Unbind(silent_ ? Silent() : absl::UnavailableError("spind has not answered"));
      return request;
    }
    *copied = OpenSome(*session, {ToOpen{request, parent}}, until).ok() && parent != nullptr &&
              request->status().ok();
    if (!absl::IsResourceExhausted(request->status()) || all_released) return request;
    if (absl::Now() > patience) return request;
    absl::SleepFor(absl::Microseconds(200));
  }
}

void Link::Remember(const std::shared_ptr<RequestState>& request) {
  absl::MutexLock lock(&mutex_);
  requests_.push_back(request);
  if (requests_.size() <= 2 * kMaxItems) return;
  const auto gone = [](const auto& weak) { return weak.expired(); };
  requests_.erase(std::remove_if(requests_.begin(), requests_.end(), gone), requests_.end());
}

void Link::ExtendOne(OpenedSession& session, RequestState& request, absl::Time until) {
  RequestBinding binding = request.binding();
  if (binding.session_id != session.id()) return;
  const int64_t wanted = std::min(request.wanted_slots(), options_.model.max_slots);
  if (wanted <= binding.capacity_slots) return request.Bind(binding);
  if (absl::Status status = MayAsk(until); !status.ok()) return request.Refused(status);
  v1::ExtendRequestsRequest extend;
  extend.set_session_id(session.id());
  v1::ExtendRequestItem& item = *extend.add_items();
  SetHandle(binding, item.mutable_handle());
  item.set_slots(static_cast<uint64_t>(wanted));
  v1::ExtendRequestsResponse extended;
  const absl::Status status =
      session.control().ExtendRequests(extend, until - absl::Now(), &extended);
  Heard(status);
  if (!status.ok() || extended.results_size() != 1) return request.Refused(status);
  const v1::RequestResult& result = extended.results(0);
  binding.capacity_slots = static_cast<int64_t>(result.capacity_slots());
  if (result.has_handle()) request.Bind(binding);
  if (result.has_error()) request.Refused(FromProto(result.error()));
}

absl::Status Link::Extend(RequestState& request, int64_t slots) {
  request.Want(slots);
  if (silent_) return Silent();
  const absl::Time until = Until();
  absl::MutexLock lock(&control_mutex_);
  const auto session = current();
  if (session == nullptr) return status();
  ExtendOne(*session, request, until);
  return request.status();
}

// What spind gave no answer about is closed later, or it would cost memory until the session ends.
bool Link::CloseGone(OpenedSession& session, absl::Time until) {
  for (Mailbox::Closed& closed : mailbox_->TakeClosed()) {
    if (closed.binding.session_id == session.id()) to_close_.push_back(std::move(closed));
  }
  while (!to_close_.empty()) {
    if (!MayAsk(until).ok()) return false;
    const auto end = to_close_.begin() + std::min(kMaxItems, to_close_.size());
    v1::CloseRequestsRequest close;
    close.set_session_id(session.id());
    for (auto closed = to_close_.begin(); closed != end; ++closed) {
      if (closed->binding.generation == 0) {
        close.add_keys(closed->key);
      } else {
        SetHandle(closed->binding, close.add_handles());
      }
    }
    const absl::Status status = session.control().CloseRequests(close, until - absl::Now());
    if (absl::IsDeadlineExceeded(status)) silent_ = true;
    if (Unanswered(status)) return false;
    to_close_.erase(to_close_.begin(), end);
  }
  return true;
}

void Link::DoChores() {
  absl::MutexLock lock(&control_mutex_);
  const auto session = current();
  if (session == nullptr) return;
  const absl::Time until = Until();
  CloseGone(*session, until);
  for (const auto& [chore, request] : mailbox_->TakeChores()) {
    if (chore == Mailbox::Chore::kExtend) {
      ExtendOne(*session, *request, until);
    } else {
      Reopen(*session, request, until);
    }
  }
}

// Later, if the device is not done with its pages yet.
void Link::Reopen(OpenedSession& session, const std::shared_ptr<RequestState>& request,
                  absl::Time until) {
  if (MayBeWritten(*request)) {
    to_reopen_.push_back(request);
    return;
  }
  mailbox_->PostClosed({request->key(), request->binding()});
  if (CloseGone(session, until)) {
    OpenAll(session, {ToOpen{request, nullptr}}, until);
  } else {
    request->Unbind(Silent());
  }
}

// What spind had no room or no answer for may fit by now, and the device may be done with what
// waited for it. What there is no time for comes a second later.
void Link::RetryRefused() {
  absl::MutexLock lock(&control_mutex_);
  const auto session = current();
  if (session == nullptr || (silent_ && !Answers(*session))) return;
  const absl::Time until = Until();
  for (const auto& request : std::exchange(to_reopen_, {})) Reopen(*session, request, until);
  std::vector<ToOpen> unopened;
  for (ToOpen& one : LiveRequests()) {
    const RequestBinding binding = one.request->binding();
    if (binding.session_id != session->id()) {
      unopened.push_back(std::move(one));
    } else if (one.request->wanted_slots() > binding.capacity_slots ||
               !one.request->status().ok()) {
      ExtendOne(*session, *one.request, until);
    }
  }
  if (CloseGone(*session, until)) OpenAll(*session, unopened, until);
}

}  // namespace spin::internal
