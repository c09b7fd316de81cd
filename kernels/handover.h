// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>

#include "kernels/binding.h"
#include "kernels/rows.h"

// What becomes of a step whose other half another process runs, decided on the device, so that no
// host need be asked. Both launches are tiny.
namespace spin::kernels {

// Expect, in the engine: waits until spind's word has reached `value`. If that takes longer than
// the limit, spind may still be at work on the step before. Then no list of this step serves and
// nothing is staged, since that would change scores under spind's hands; *skipped says so. The
// binding is as the next copy of it says again. Not a stream wait (Device::WaitWord): the end of
// those depends on another stream, which may share a hardware queue with the waiting one, and how
// many queues there are is up to the engine (CUDA_DEVICE_MAX_CONNECTIONS; 2 under MPS). This one
// ends by itself.
struct ExpectParams {
  const uint64_t* word;
  uint64_t value;
  int64_t limit_ns;   // from the moment on that the stream has come to it
  Binding* binding;   // in/out
  uint64_t* skipped;  // out, if it was not reached: `step`; only grows
  uint64_t step;
  uint32_t* late;  // counts; may be memory of the host, where one stream alone writes it
};

void ExpectCpu(const ExpectParams& params);

enum class Admission : uint32_t {
  kUndecided = 0,
  kAdmitted,  // the scores of the step are staged
  kGivenUp,   // the engine's word was not reached in time
  kSkipped,   // the engine staged nothing: its Expect found that spind was late
};

// Admit, in spind, after a stream wait for the engine's word: a step that has no scores is not run.
// All its rows become kPaddingRow then.
struct AdmitParams {
  const uint64_t* given_up;  // of the wait
  uint64_t ticket;
  const uint64_t* skipped;  // steps up to this one count as skipped: the engine may skip several
  uint64_t step;            // the value that was waited for
  ScoredRow* scored;        // in/out [scored_count]
  int32_t scored_count;
  ScoredRow* audited;  // in/out [audited_count]
  int32_t audited_count;
  Row* next;  // in/out [next_count]
  int32_t next_count;
  Admission* admission;  // out; may be memory of the host
};

void AdmitCpu(const AdmitParams& params);

}  // namespace spin::kernels
