// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/geometry.h"

// Where the two moving averages of a request lie. A request owns a list of pages; page p holds, for
// every layer, V of the slots and D of the distances [p * kPageSlots, (p + 1) * kPageSlots):
//
//   page = [layers][ V: kPageSlots elements | D: kPageSlots elements ]
//
// D is stored *reversed* inside a page, so that slots in ascending order meet both averages in
// ascending addresses. A request grows by appending pages; nothing is ever moved.
//
// An entry that was never observed is -infinity: indexer scores are often negative, so 0 would rank
// unseen slots above seen ones. (The option zero_init fills with 0, the paper's literal line.)
namespace spin::kernels {

inline constexpr uint32_t kPageOffsetUnit = 256;  // bytes; page offsets are counted in these

// One request as the kernels find it in the slab. Written by the owner of the slab only, before the
// request is first named in a step; generation 0 means the record is free.
struct RequestRecord {
  uint32_t generation;
  uint32_t page_count;
  uint64_t key_hash;          // 64-bit hash of the client's request key; feeds exploration
  uint32_t pages[kMaxPages];  // offsets from the slab's base, in units of kPageOffsetUnit
};

SPIN_HOST_DEVICE constexpr int64_t PageBytes(const Geometry& geometry) {
  return 2 * int64_t{geometry.layers} * kPageSlots * DtypeBytes(geometry.state);
}

SPIN_HOST_DEVICE constexpr int32_t PagesFor(int64_t slots) {
  return static_cast<int32_t>((slots + kPageSlots - 1) / kPageSlots);
}

// All state of a launch: the slab and the records of one session in it.
struct StateView {
  std::byte* slab;               // base address of the slab in this process
  const RequestRecord* records;  // [max_requests]
};

// Byte offset, from the start of its page, of V at `slot`.
SPIN_HOST_DEVICE constexpr int64_t VOffset(const Geometry& g, int32_t layer, int64_t slot) {
  return (2 * int64_t{layer} * kPageSlots + slot % kPageSlots) * DtypeBytes(g.state);
}

// Byte offset, from the start of its page, of D at `distance` = q - slot.
SPIN_HOST_DEVICE constexpr int64_t DOffset(const Geometry& g, int32_t layer, int64_t distance) {
  return ((2 * int64_t{layer} + 1) * kPageSlots + (kPageSlots - 1 - distance % kPageSlots)) *
         DtypeBytes(g.state);
}

// Address of page `page` of the request at `record`.
SPIN_HOST_DEVICE inline std::byte* PageAt(const StateView& state, const RequestRecord& record,
                                          int64_t page) {
  return state.slab + uint64_t{record.pages[page]} * kPageOffsetUnit;
}

}  // namespace spin::kernels
