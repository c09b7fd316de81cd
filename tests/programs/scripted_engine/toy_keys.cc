// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "tests/programs/scripted_engine/toy_keys.h"

#include <numeric>
#include <vector>

namespace spin::scripted {
namespace {

constexpr int kHeads = 4;
constexpr int kDim = 16;

// FP8 E4M3 codes of both signs, small and finite.
std::vector<uint8_t> Codes(uint64_t seed, int64_t count) {
  std::vector<uint8_t> codes(count);
  for (uint8_t& code : codes) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    code = static_cast<uint8_t>(seed >> 56) & 0xbf;
  }
  return codes;
}

}  // namespace

RecorderShape ToyShape(int layers, int64_t max_slots) {
  RecorderShape shape = {
      .layers = {}, .heads = kHeads, .dim = kDim, .max_slots = static_cast<int>(max_slots)};
  shape.layers.resize(layers);
  std::iota(shape.layers.begin(), shape.layers.end(), 0);
  return shape;
}

void PutToyKeys(int layers, int first, int count, Recorder* recorder) {
  for (int layer = 0; layer < layers; ++layer) {
    for (int slot = first; slot < first + count; ++slot) {
      recorder->PutKeys(layer, slot, Codes(1000003u * layer + slot, kDim), {1.0f});
    }
  }
}

void PutToyStep(int layers, int slot, Recorder* recorder) {
  for (int layer = 0; layer < layers; ++layer) {
    recorder->PutStep(layer, slot, Codes(7919u * layer + slot / 8, kHeads * kDim),
                      std::vector<float>(kHeads, 0.25f));
  }
}

}  // namespace spin::scripted
