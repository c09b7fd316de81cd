// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "server/request_table.h"

#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "server/refusal.h"

namespace spin::server {

RequestTable::RequestTable(std::shared_ptr<SessionRegion> region, bool zero_init)
    : region_(std::move(region)), zero_init_(zero_init), by_index_(region_->shape().max_requests) {}

absl::StatusOr<std::shared_ptr<Request>> RequestTable::Open(const std::string& key, int64_t slots,
                                                            const Request* parent) {
  {
    absl::MutexLock lock(&mutex_);
    if (!by_key_.try_emplace(key, nullptr).second) {
      return Refuse(absl::StatusCode::kAlreadyExists, v1::ERROR_REASON_DUPLICATE_REQUEST, "key",
                    absl::StrCat("a request with key \"", absl::CHexEscape(key), "\" is open"));
    }
  }
  if (parent != nullptr) slots = std::max(slots, parent->capacity_slots());
  auto request = Request::Create(region_, key, slots, zero_init_);
  absl::Status status = request.status();
  if (status.ok() && parent != nullptr) status = (*request)->InheritFrom(*parent);

  absl::MutexLock lock(&mutex_);
  if (!status.ok()) {
    by_key_.erase(key);
    return status;
  }
  by_key_[key] = *request;
  by_index_[(*request)->index()] = *request;
  return request;
}

std::shared_ptr<Request> RequestTable::FindLocked(const v1::RequestHandle& handle) const {
  if (handle.index() >= by_index_.size()) return nullptr;
  const std::shared_ptr<Request>& request = by_index_[handle.index()];
  return request != nullptr && request->generation() == handle.generation() ? request : nullptr;
}

std::shared_ptr<Request> RequestTable::Find(const v1::RequestHandle& handle) const {
  absl::ReaderMutexLock lock(&mutex_);
  return FindLocked(handle);
}

std::shared_ptr<Request> RequestTable::RemoveLocked(std::shared_ptr<Request> request) {
  if (request == nullptr) return nullptr;
  by_index_[request->index()] = nullptr;
  by_key_.erase(request->key());
  return request;
}

std::shared_ptr<Request> RequestTable::Remove(const v1::RequestHandle& handle) {
  absl::MutexLock lock(&mutex_);
  return RemoveLocked(FindLocked(handle));
}

std::shared_ptr<Request> RequestTable::Remove(const std::string& key) {
  absl::MutexLock lock(&mutex_);
  const auto it = by_key_.find(key);
  return it == by_key_.end() ? nullptr : RemoveLocked(it->second);
}

std::vector<std::shared_ptr<Request>> RequestTable::RemoveAll() {
  absl::MutexLock lock(&mutex_);
  std::vector<std::shared_ptr<Request>> all;
  for (std::shared_ptr<Request>& request : by_index_) {
    if (request != nullptr) all.push_back(RemoveLocked(request));
  }
  return all;
}

size_t RequestTable::size() const {
  absl::ReaderMutexLock lock(&mutex_);
  return by_key_.size();
}

uint64_t RequestTable::state_bytes() const {
  absl::ReaderMutexLock lock(&mutex_);
  uint64_t bytes = 0;
  for (const std::shared_ptr<Request>& request : by_index_) {
    if (request != nullptr) bytes += request->state_bytes();
  }
  return bytes;
}

}  // namespace spin::server
