// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "spin/session.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "client/cpp/options_check.h"
#include "client/cpp/session_impl.h"

namespace spin {
namespace {

constexpr size_t kMaxKeyBytes = 256;

absl::Status Forked() {
  return absl::FailedPreconditionError(
      "this process was forked after the session was created; create a session of its own");
}

// A request that never had, and never gets, state at spind.
std::shared_ptr<internal::RequestState> Refused(absl::Status why) {
  auto state = std::make_shared<internal::RequestState>("", 0, [](const auto&, const auto&) {});
  state->Refused(std::move(why));
  return state;
}

absl::Status CheckRequest(absl::string_view key, int64_t slots, int64_t max_slots) {
  if (key.empty() || key.size() > kMaxKeyBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("key: has ", key.size(), " bytes, not 1 to ", kMaxKeyBytes));
  }
  if (slots < 0 || slots > max_slots) {
    return absl::InvalidArgumentError(
        absl::StrCat("slots: ", slots, " is not in 0 to ", max_slots));
  }
  return absl::OkStatus();
}

}  // namespace

absl::string_view ReasonName(Reason reason) {
  switch (reason) {
    case Reason::kNone:
      return "none";
    case Reason::kCold:
      return "cold";
    case Reason::kNoSidecar:
      return "no_sidecar";
    case Reason::kDeadline:
      return "deadline";
    case Reason::kEpoch:
      return "epoch";
    case Reason::kCapacity:
      return "capacity";
    case Reason::kStale:
      return "stale";
    case Reason::kPosition:
      return "position";
    case Reason::kInvalid:
      return "invalid";
    case Reason::kInternal:
      return "internal";
    case Reason::kAudit:
      return "audit";
    case Reason::kOff:
      return "off";
  }
  return "unknown";
}

Request& Request::operator=(Request&& other) noexcept = default;
Request::~Request() = default;

absl::Status Request::status() const {
  return state_ == nullptr ? absl::FailedPreconditionError("not opened") : state_->status();
}

int64_t Request::capacity_slots() const {
  return state_ == nullptr ? 0 : state_->binding().capacity_slots;
}

Step::~Step() {
  if (session_ != nullptr) session_->DropStep(serial_);
}

KeptBlocks Step::Kept(int layer, int row) const {
  return session_ == nullptr ? KeptBlocks{{}, true, Reason::kInvalid}
                             : session_->Kept(serial_, layer, row);
}

void Step::PutScores(int layer, const Scores& scores) {
  if (session_ != nullptr) session_->PutScores(serial_, layer, scores);
}

void Step::End(const EndOptions& options) {
  if (session_ != nullptr) std::exchange(session_, nullptr)->EndStep(serial_, options);
}

absl::StatusOr<std::unique_ptr<Session>> Session::Create(const SessionOptions& options) {
  const absl::Status valid = internal::CheckOptions(options);
  if (!valid.ok()) return valid;
  return std::unique_ptr<Session>(new Session(std::make_unique<internal::SessionImpl>(options)));
}

Session::Session(std::unique_ptr<internal::SessionImpl> impl) : impl_(std::move(impl)) {}

Session::~Session() {
  // A forked child has no link thread to join, and no connection to close: it leaves its copy
  // alone.
  if (!impl_->in_owner_process()) (void)impl_.release();
}

absl::Status Session::WaitUntilReady(absl::Duration timeout) {
  return impl_->in_owner_process() ? impl_->link().WaitUntilReady(timeout) : Forked();
}

absl::Status Session::status() const {
  return impl_->in_owner_process() ? impl_->link().status() : Forked();
}

Request Session::OpenRequest(absl::string_view key, int64_t slots) {
  if (!impl_->in_owner_process()) return Request(Refused(Forked()));
  const absl::Status valid = CheckRequest(key, slots, impl_->options().model.max_slots);
  if (!valid.ok()) return Request(Refused(valid));
  bool copied = false;
  return Request(impl_->link().Open(key, slots, nullptr, &copied));
}

Request Session::ForkRequest(const Request& parent, absl::string_view key, int64_t slots) {
  if (!impl_->in_owner_process()) return Request(Refused(Forked()));
  absl::Status valid = CheckRequest(key, slots, impl_->options().model.max_slots);
  if (valid.ok()) valid = parent.status();
  if (!valid.ok()) return Request(Refused(valid));
  bool copied = false;
  auto child = impl_->link().Open(key, slots, parent.state_.get(), &copied);
  // The parent's may be of an earlier life of the session, which it has not stepped in since.
  const bool current = parent.state_->history().binding.SameAs(parent.state_->binding());
  if (copied && current) {
    internal::RequestHistory& history = child->history();
    history.binding = child->binding();
    history.progress = parent.state_->history().progress;
    history.why_no_list = Reason::kCold;
  }
  return Request(std::move(child));
}

absl::Status Session::Extend(const Request& request, int64_t slots) {
  if (!impl_->in_owner_process()) return Forked();
  if (request.state_ == nullptr) return absl::FailedPreconditionError("request: not opened");
  if (slots < 1 || slots > impl_->options().model.max_slots) {
    return absl::InvalidArgumentError(
        absl::StrCat("slots: ", slots, " is not in 1 to ", impl_->options().model.max_slots));
  }
  return impl_->link().Extend(*request.state_, slots);
}

Step Session::BeginStep(absl::Span<const StepRow> rows) {
  return Step(impl_.get(), impl_->BeginStep(rows));
}

SessionStats Session::stats() const { return impl_->counts().Stats(); }

uint64_t Session::recording_id() const {
  return impl_->in_owner_process() ? impl_->link().recording().wanted_id() : 0;
}

Recording Session::recording() const {
  return impl_->in_owner_process() ? impl_->link().recording().wanted() : Recording();
}

void Session::ReportRecording(uint64_t id, const RecordingProgress& progress) {
  if (impl_->in_owner_process()) impl_->link().recording().SetProgress(id, progress);
}

}  // namespace spin
