// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

// Marks the few functions that both the CPU reference and the CUDA kernels run, so that a rule such
// as the block budget is written once. Includes no CUDA header: plain C++ compilers see nothing.
#ifdef __CUDACC__
#define SPIN_HOST_DEVICE __host__ __device__
#else
#define SPIN_HOST_DEVICE
#endif
