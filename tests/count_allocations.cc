// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "tests/count_allocations.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <new>

namespace {

std::atomic<int> all_threads = 0;
thread_local int this_thread = 0;

// Null where there is no memory. All alignments take one way, so that one Release fits them all.
void* Allocate(size_t bytes, size_t alignment) {
  ++all_threads;
  ++this_thread;
  void* memory = nullptr;
  return posix_memalign(&memory, std::max(alignment, sizeof(void*)), bytes) == 0 ? memory : nullptr;
}

void* AllocateOrAbort(size_t bytes, size_t alignment) {
  void* memory = Allocate(bytes, alignment);
  if (memory == nullptr) std::abort();
  return memory;
}

// Not inlined, or GCC takes free() for the wrong counterpart of new.
[[gnu::noinline]] void Release(void* memory) { std::free(memory); }

constexpr size_t kDefaultAlignment = __STDCPP_DEFAULT_NEW_ALIGNMENT__;

size_t Bytes(std::align_val_t alignment) { return static_cast<size_t>(alignment); }

}  // namespace

void* operator new(size_t n) { return AllocateOrAbort(n, kDefaultAlignment); }
void* operator new[](size_t n) { return AllocateOrAbort(n, kDefaultAlignment); }
void* operator new(size_t n, std::align_val_t a) { return AllocateOrAbort(n, Bytes(a)); }
void* operator new[](size_t n, std::align_val_t a) { return AllocateOrAbort(n, Bytes(a)); }

void* operator new(size_t n, const std::nothrow_t&) noexcept {
  return Allocate(n, kDefaultAlignment);
}
void* operator new[](size_t n, const std::nothrow_t&) noexcept {
  return Allocate(n, kDefaultAlignment);
}
void* operator new(size_t n, std::align_val_t a, const std::nothrow_t&) noexcept {
  return Allocate(n, Bytes(a));
}
void* operator new[](size_t n, std::align_val_t a, const std::nothrow_t&) noexcept {
  return Allocate(n, Bytes(a));
}

void operator delete(void* p) noexcept { Release(p); }
void operator delete[](void* p) noexcept { Release(p); }
void operator delete(void* p, size_t) noexcept { Release(p); }
void operator delete[](void* p, size_t) noexcept { Release(p); }
void operator delete(void* p, std::align_val_t) noexcept { Release(p); }
void operator delete[](void* p, std::align_val_t) noexcept { Release(p); }
void operator delete(void* p, size_t, std::align_val_t) noexcept { Release(p); }
void operator delete[](void* p, size_t, std::align_val_t) noexcept { Release(p); }
void operator delete(void* p, const std::nothrow_t&) noexcept { Release(p); }
void operator delete[](void* p, const std::nothrow_t&) noexcept { Release(p); }
void operator delete(void* p, std::align_val_t, const std::nothrow_t&) noexcept { Release(p); }
void operator delete[](void* p, std::align_val_t, const std::nothrow_t&) noexcept { Release(p); }

namespace spin {

int AllocationsOfThisThread() { return this_thread; }

int AllocationsOfAllThreads() { return all_threads; }

}  // namespace spin
