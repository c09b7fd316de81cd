// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "server/request_calls.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/refusal.h"
#include "server/validate.h"

namespace spin::server {
namespace {

absl::Status CheckOpen(const Session& session) {
  if (!session.ended()) return absl::OkStatus();
  return Refuse(absl::StatusCode::kAborted, v1::ERROR_REASON_CLOSED, "session_id",
                "the session was closed while the call waited");
}

absl::Status UnknownRequest(const std::string& field, const v1::RequestHandle& handle) {
  return Refuse(absl::StatusCode::kNotFound, v1::ERROR_REASON_UNKNOWN_REQUEST, field,
                absl::StrCat("index ", handle.index(), " generation ", handle.generation(),
                             " names no open request"));
}

absl::StatusOr<std::shared_ptr<Request>> OpenOne(Session& session, const v1::OpenRequestItem& item,
                                                 const std::string& path) {
  const absl::Status valid = CheckOpenItem(item, session.region().shape().max_slots, path);
  if (!valid.ok()) return valid;
  std::shared_ptr<Request> parent;
  if (item.has_fork()) {
    parent = session.requests().Find(item.fork().parent());
    if (parent == nullptr) return UnknownRequest(path + ".fork.parent", item.fork().parent());
  }
  return session.requests().Open(item.key(), static_cast<int64_t>(item.slots()), parent.get());
}

absl::Status ExtendOne(Session& session, const v1::ExtendRequestItem& item, const std::string& path,
                       std::shared_ptr<Request>* request) {
  *request = session.requests().Find(item.handle());
  if (*request == nullptr) return UnknownRequest(path + ".handle", item.handle());
  const int64_t max_slots = session.region().shape().max_slots;
  if (item.slots() < 1 || item.slots() > static_cast<uint64_t>(max_slots)) {
    return RefuseField(path + ".slots", absl::StrCat(item.slots(), " is not in 1 to ", max_slots));
  }
  return session.requests().Grow(request->get(), static_cast<int64_t>(item.slots()));
}

// A refusal from below names "key" or "slots"; on the wire it belongs to an item.
void SetError(const absl::Status& status, const std::string& path, v1::RequestResult* result) {
  *result->mutable_error() = DetailOf(status);
  std::string& field = *result->mutable_error()->mutable_field();
  if (field.rfind(path, 0) != 0) field = field.empty() ? path : absl::StrCat(path, ".", field);
}

void Describe(const Request& request, const Session& session, v1::RequestResult* result) {
  result->mutable_handle()->set_index(request.index());
  result->mutable_handle()->set_generation(request.generation());
  result->set_capacity_slots(static_cast<uint64_t>(
      std::min(request.capacity_slots(), session.region().shape().max_slots)));
}

}  // namespace

bool HasFork(const v1::OpenRequestsRequest& request) {
  return std::any_of(request.items().begin(), request.items().end(),
                     [](const v1::OpenRequestItem& item) { return item.has_fork(); });
}

absl::Status DoOpenRequests(Session& session, const v1::OpenRequestsRequest& request,
                            absl::FunctionRef<bool()> abandoned,
                            v1::OpenRequestsResponse* response) {
  if (absl::Status status = CheckOpen(session); !status.ok()) return status;
  for (int i = 0;; ++i) {
    if (abandoned()) {
      for (const v1::RequestResult& result : response->results()) {
        if (result.has_handle()) session.requests().Remove(result.handle());
      }
      return absl::CancelledError("the caller has given up");
    }
    if (i == request.items_size()) return absl::OkStatus();
    const std::string path = absl::StrCat("items[", i, "]");
    v1::RequestResult& result = *response->add_results();
    const auto opened = OpenOne(session, request.items(i), path);
    if (opened.ok()) {
      Describe(**opened, session, &result);
    } else {
      SetError(opened.status(), path, &result);
    }
  }
}

absl::Status DoExtendRequests(Session& session, const v1::ExtendRequestsRequest& request,
                              v1::ExtendRequestsResponse* response) {
  if (absl::Status status = CheckOpen(session); !status.ok()) return status;
  for (int i = 0; i < request.items_size(); ++i) {
    const std::string path = absl::StrCat("items[", i, "]");
    v1::RequestResult& result = *response->add_results();
    std::shared_ptr<Request> extended;
    const absl::Status status = ExtendOne(session, request.items(i), path, &extended);
    if (extended != nullptr) Describe(*extended, session, &result);
    if (!status.ok()) SetError(status, path, &result);
  }
  return absl::OkStatus();
}

absl::Status DoCloseRequests(Session& session, const v1::CloseRequestsRequest& request,
                             v1::CloseRequestsResponse* response) {
  uint32_t closed = 0;
  const auto close = [&](std::shared_ptr<Request> removed) {
    if (removed == nullptr) return;
    ++closed;
    if (request.after_timeline() > 0) {
      session.Quarantine(std::move(removed), request.after_timeline());
    }
  };
  for (const v1::RequestHandle& handle : request.handles())
    close(session.requests().Remove(handle));
  for (const std::string& key : request.keys()) close(session.requests().Remove(key));
  session.Sweep();
  response->set_closed(closed);
  return absl::OkStatus();
}

}  // namespace spin::server
