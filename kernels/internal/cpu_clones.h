// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

// Compiles a function once per x86 vector width and picks at load time. Results do not depend on
// the choice: the reference uses no FMA, and every reduction in it (max, counts) is
// order-independent. Sanitizers run before the loader could resolve such a function, so they get
// the plain one.
#if defined(__x86_64__) && defined(__linux__) && !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__) && !defined(__clang__)
#define SPIN_CPU_CLONES \
  __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define SPIN_CPU_CLONES
#endif

#define SPIN_ALWAYS_INLINE inline __attribute__((always_inline))
