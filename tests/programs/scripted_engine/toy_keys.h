// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>

#include "spin/recorder.h"

// Made-up keys and queries, for traces: the scripted indexer has scores only.
namespace spin::scripted {

RecorderShape ToyShape(int layers, int64_t max_slots);

// Keys of the slots [first, first + count) of all layers.
void PutToyKeys(int layers, int first, int count, Recorder* recorder);

// The step of the query at this slot, of all layers.
void PutToyStep(int layers, int slot, Recorder* recorder);

}  // namespace spin::scripted
