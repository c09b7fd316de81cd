// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

// Tells ThreadSanitizer what the locks of Abseil order. The system's Abseil is built without it, so
// that every access under one of its mutexes looks like a race. A program of a TSan build that
// links this has these functions before the library's: each calls the library's own, and says that
// what a thread did before it let go of the mutex comes before what the next thread does with it.
//
// Readers are ordered among each other too, so a write under a reader's lock is not found.

#include <dlfcn.h>

#include <cstdlib>
#include <string>

#include "absl/base/options.h"
#include "absl/synchronization/mutex.h"

extern "C" void __tsan_acquire(void* address);
extern "C" void __tsan_release(void* address);

namespace {

#define SPIN_TEXT(name) SPIN_TEXT_OF(name)
#define SPIN_TEXT_OF(name) #name

// The library's function of this mangled name within its versioned namespace.
template <typename Function>
Function Library(const char* name) {
  const std::string space = SPIN_TEXT(ABSL_OPTION_INLINE_NAMESPACE_NAME);
  const std::string symbol = "_ZN4absl" + std::to_string(space.size()) + space + name;
  const auto function = reinterpret_cast<Function>(dlsym(RTLD_NEXT, symbol.c_str()));
  if (function == nullptr) std::abort();  // another Abseil, with other functions
  return function;
}

// A condition is looked at by whichever thread lets go of the mutex, after it has said so.
struct Watched {
  absl::Mutex* mutex;
  const absl::Condition* condition;
};

bool Eval(Watched* watched) {
  __tsan_acquire(watched->mutex);
  const bool value = watched->condition->Eval();
  __tsan_release(watched->mutex);
  return value;
}

}  // namespace

namespace absl {
ABSL_NAMESPACE_BEGIN

void Mutex::Lock() {
  static const auto lock = Library<void (*)(Mutex*)>("5Mutex4LockEv");
  lock(this);
  __tsan_acquire(this);
}

void Mutex::Unlock() {
  static const auto unlock = Library<void (*)(Mutex*)>("5Mutex6UnlockEv");
  __tsan_release(this);
  unlock(this);
}

void Mutex::ReaderLock() {
  static const auto lock = Library<void (*)(Mutex*)>("5Mutex10ReaderLockEv");
  lock(this);
  __tsan_acquire(this);
}

void Mutex::ReaderUnlock() {
  static const auto unlock = Library<void (*)(Mutex*)>("5Mutex12ReaderUnlockEv");
  __tsan_release(this);
  unlock(this);
}

void Mutex::Await(const Condition& condition) {
  static const auto await =
      Library<void (*)(Mutex*, const Condition&)>("5Mutex5AwaitERKNS0_9ConditionE");
  Watched watched = {this, &condition};
  __tsan_release(this);
  await(this, Condition(&Eval, &watched));
  __tsan_acquire(this);
}

bool Mutex::AwaitWithTimeout(const Condition& condition, Duration timeout) {
  static const auto await = Library<bool (*)(Mutex*, const Condition&, Duration)>(
      "5Mutex16AwaitWithTimeoutERKNS0_9ConditionENS0_8DurationE");
  Watched watched = {this, &condition};
  __tsan_release(this);
  const bool value = await(this, Condition(&Eval, &watched), timeout);
  __tsan_acquire(this);
  return value;
}

bool Mutex::AwaitWithDeadline(const Condition& condition, Time deadline) {
  static const auto await = Library<bool (*)(Mutex*, const Condition&, Time)>(
      "5Mutex17AwaitWithDeadlineERKNS0_9ConditionENS0_4TimeE");
  Watched watched = {this, &condition};
  __tsan_release(this);
  const bool value = await(this, Condition(&Eval, &watched), deadline);
  __tsan_acquire(this);
  return value;
}

ABSL_NAMESPACE_END
}  // namespace absl
