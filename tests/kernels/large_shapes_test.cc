// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include <gmock/gmock.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <new>
#include <random>
#include <vector>

#include "tests/kernels/test_session.h"

// Shapes for which a GPU has other ways than for small ones, held to the CPU bit by bit.
namespace spin::kernels {
namespace {

class LargeShapesTest : public DeviceTest {};
SPIN_TEST_ON_EVERY_DEVICE(LargeShapesTest);

constexpr int32_t kLayers = 21;
constexpr uint32_t kRequests = 8;
constexpr int64_t kSlots = 32768;  // 128 chunks of 256 slots; a GPU has some 2600 runs of 8 at once

Backend Cpu() {
  constexpr std::align_val_t kAlignment{256};
  return {.name = "cpu",
          .make_device = MakeCpuDevice,
          .allocate = [](size_t bytes) { return operator new(bytes, kAlignment); },
          .release = [](void* memory) { operator delete(memory, kAlignment); }};
}

// Steps of all requests, at every place of the query in a vector of D. Of several verifier rows the
// last is accepted every other time.
class Batch {
 public:
  Batch(int32_t tokens_per_slot, uint32_t next_n) {
    for (uint32_t r = 0; r < kRequests; ++r) {
      ScoredRow row = ScoredAt(tokens_per_slot * (kSlots - 500 - 37 * r) - 1, next_n);
      row.request = r;
      row.score_row = r;
      scored_.push_back(row);
    }
  }

  const std::vector<ScoredRow>& scored() const { return scored_; }
  std::vector<Row> next() const {
    std::vector<Row> rows;
    for (const ScoredRow& row : scored_) {
      rows.push_back({row.request, row.next_n, row.position + row.accepted, 1 - row.buffer, 1});
    }
    return rows;
  }
  void GoOn() {
    for (ScoredRow& row : scored_) {
      row.position += row.accepted;
      row.accepted = std::max(row.next_n - row.buffer, 1u);
      row.buffer = 1 - row.buffer;
      row.coverage = Coverage::kKept;
    }
  }

 private:
  std::vector<ScoredRow> scored_;
};

// Block means differ, as in a model; some scores are not finite.
void Draw(std::mt19937_64& random, std::vector<float>& scores) {
  uint64_t bits = 0;
  float mean = 0;
  for (size_t i = 0; i < scores.size(); ++i) {
    if (i % 64 == 0) mean = static_cast<float>(random() % 1024) / 256;
    bits = i % 4 == 0 ? random() : bits >> 16;
    scores[i] = static_cast<float>(bits & 0xffff) / 65536 - mean;
    if (bits % 65536 == 7) scores[i] = std::numeric_limits<float>::infinity();
  }
}

Policy Usual() {
  Policy policy = Skip(0.4);
  policy.exploration = 0.05;
  policy.pin_first_block = 1;
  return policy;
}

// More than fits onto the GPU at once: a thread block has a long piece of a row then, and reads no
// more of it than it needs.
TEST_P(LargeShapesTest, LargeBatchIsThatOfTheCpuAtEveryStep) {
  const TestDevice cpu(Cpu());
  struct Decoding {
    int32_t tokens_per_slot;
    uint32_t next_n;
    int steps;
  };
  for (const auto& [tokens_per_slot, next_n, steps] :
       {Decoding{1, 1, 10}, Decoding{4, 1, 10}, Decoding{1, 2, 4}, Decoding{4, 3, 4}}) {
    const SessionOptions options = {.geometry = {kLayers, 64, 512, tokens_per_slot, Dtype::kBF16},
                                    .max_requests = kRequests,
                                    .max_slots = kSlots};
    TestSession expected(cpu, options);
    TestSession session(device_, options);
    for (uint32_t r = 0; r < kRequests; ++r) {
      expected.Open(r, kSlots, r);
      session.Open(r, kSlots, r);
    }
    std::mt19937_64 random(static_cast<uint64_t>(tokens_per_slot));
    ScoreTensor scores(kLayers, kRequests, static_cast<int32_t>(next_n),
                       kSlots + tokens_per_slot % 2);
    Batch batch(tokens_per_slot, next_n);
    for (int step = 0; step < steps; ++step, batch.GoOn()) {
      Draw(random, scores.values);
      const std::vector<Row> next = batch.next();
      for (TestSession* const of : {&expected, &session}) {
        of->Observe(batch.scored(), scores, 0.5);
        of->SelectFromState(next, Usual());
      }
      for (const Row& row : next) {
        for (int32_t layer = 0; layer < kLayers; ++layer) {
          ASSERT_EQ(session.List(row.buffer, row.request, layer).blocks,
                    expected.List(row.buffer, row.request, layer).blocks)
              << tokens_per_slot << " tokens a slot, next_n " << next_n << ", step " << step
              << ", request " << row.request << ", layer " << layer;
        }
      }
    }
    for (uint32_t r = 0; r < kRequests; ++r) {
      for (int32_t layer = 0; layer < kLayers; layer += 5) {
        EXPECT_TRUE(SameBits(session.V(r, layer), expected.V(r, layer)));
        EXPECT_TRUE(SameBits(session.D(r, layer), expected.D(r, layer)));
      }
    }
    for (int32_t layer = 0; layer < kLayers; ++layer) {
      EXPECT_EQ(session.Counters(layer).nonfinite_scores,
                expected.Counters(layer).nonfinite_scores);
    }
  }
}

// Keys of that many blocks lie elsewhere than those of few, and a warp has more of them.
TEST_P(LargeShapesTest, ListsOfLongContextsAreThoseOfTheCpu) {
  const TestDevice cpu(Cpu());
  struct Size {
    int32_t block;
    int64_t blocks;
    uint32_t next_n = 1;
  };
  for (const Size& size : {Size{64, 3000}, Size{64, 9000}, Size{64, 40000}, Size{64, 65536},
                           Size{16, 9000}, Size{16, 70000}, Size{16, 262144}, Size{64, 3000, 8},
                           Size{64, 40000, 2}, Size{16, 9000, 3}}) {
    const int64_t slots = size.block * size.blocks;
    const SessionOptions options = {.geometry = {1, size.block, 512, 1, Dtype::kBF16},
                                    .max_slots = slots};
    TestSession expected(cpu, options);
    TestSession session(device_, options);
    for (TestSession* const of : {&expected, &session}) of->Open(0, slots);
    std::mt19937_64 random(3);
    ScoreTensor scores(1, 1, static_cast<int32_t>(size.next_n), slots);
    ScoredRow scored = ScoredAt(slots - 40, size.next_n);
    for (int step = 0; step < 3; ++step) {
      Draw(random, scores.values);
      scored.accepted = std::max(size.next_n / 2, 1u);
      const Row next = {0, size.next_n, scored.position + scored.accepted, 1 - scored.buffer, 1};
      for (TestSession* const of : {&expected, &session}) {
        of->Observe({scored}, scores, 0.5);
        of->SelectFromState({next}, Usual());
      }
      EXPECT_EQ(session.List(next.buffer, 0, 0).blocks, expected.List(next.buffer, 0, 0).blocks)
          << size.blocks << " blocks of " << size.block << ", next_n " << size.next_n << ", step "
          << step;
      EXPECT_EQ(session.MaskedBlocks(next.buffer, 0, 0, size.blocks),
                expected.MaskedBlocks(next.buffer, 0, 0, size.blocks));
      scored = {0, next.next_n, next.position, 0, next.buffer, Coverage::kKept, 0};
    }
  }
}

}  // namespace
}  // namespace spin::kernels
