// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "server/session_table.h"

namespace spin::server {

// Lets every session review its budgets, again and again. Clients with the inline executor count
// audits in the slab without a word to spind, so it has to look.
class BudgetReviewer {
 public:
  // `sessions` must outlive this.
  BudgetReviewer(SessionTable* sessions, absl::Duration interval);
  ~BudgetReviewer();

 private:
  void Run();

  SessionTable* const sessions_;
  const absl::Duration interval_;
  absl::Mutex mutex_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace spin::server
