// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

// A program that links this counts what C++ allocates: every form of operator new and delete is
// replaced. Partial replacements would mix with those of a sanitizer, which takes one that frees
// what the other made for a fault. Such a program holds nothing but the tests about allocation.
namespace spin {

// By the calling thread, since it was started.
int AllocationsOfThisThread();

// By all threads, since the program was started.
int AllocationsOfAllThreads();

}  // namespace spin
