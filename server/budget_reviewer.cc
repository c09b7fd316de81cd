// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "server/budget_reviewer.h"

#include <pthread.h>

namespace spin::server {

BudgetReviewer::BudgetReviewer(SessionTable* sessions, absl::Duration interval)
    : sessions_(sessions), interval_(interval), thread_([this] { Run(); }) {}

BudgetReviewer::~BudgetReviewer() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  thread_.join();
}

void BudgetReviewer::Run() {
  pthread_setname_np(pthread_self(), "budgets");
  for (;;) {
    {
      absl::MutexLock lock(&mutex_);
      if (mutex_.AwaitWithTimeout(absl::Condition(&stopping_), interval_)) return;
    }
    for (const auto& session : sessions_->All()) session->ReviewBudgets();
  }
}

}  // namespace spin::server
