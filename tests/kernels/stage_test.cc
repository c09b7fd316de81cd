// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "kernels/stage.h"

#include <gmock/gmock.h>

#include <cmath>
#include <random>

#include "tests/kernels/reference.h"
#include "tests/kernels/test_session.h"

namespace spin::kernels {
namespace {

using ::testing::Each;

constexpr float kUntouched = -99;

// The staging area has room for kRows rows of kDrafts verifier rows, the scores lie in rows of
// another length.
class StageTest : public DeviceTest {
 protected:
  static constexpr int32_t kLayers = 2;
  static constexpr int32_t kRows = 3;
  static constexpr int32_t kDrafts = 2;

  // What is staged of `scores`, from which element c of verifier row v of layer l is number
  // (l * kRows * kDrafts + v) * scores_stride + c, by layer and verifier row.
  std::vector<float> Stage(const std::vector<ScoredRow>& rows, const std::vector<int32_t>& kept,
                           Dtype from, Dtype to, const std::vector<float>& scores,
                           int64_t max_slots, LayerRange layers = {0, kLayers}) {
    const int64_t stride = static_cast<int64_t>(scores.size()) / (kLayers * kRows * kDrafts);
    const size_t count = kLayers * kRows * kDrafts * max_slots;
    const DeviceArray<ScoredRow> device_rows(device_, rows);
    const DeviceArray<int32_t> device_kept(device_, kept);
    const DeviceArray<std::byte> in(device_, Pack(scores, from));
    const DeviceArray<std::byte> out(device_, Pack(std::vector<float>(count, kUntouched), to));
    const DeviceArray<Binding> binding(device_, {{.staging = staging_ ? out.data() : nullptr}});
    device_.Finish(device_->Stage(
        {.geometry = {kLayers, 64, 64, 1, Dtype::kF32},
         .layers = layers,
         .rows = device_rows.data(),
         .row_count = static_cast<int32_t>(rows.size()),
         .kept_slots = device_kept.data(),
         .next_n_stride = kDrafts,
         .max_slots = max_slots,
         .scores = {in.data(), from, kRows * kDrafts * stride, kDrafts * stride, stride},
         .staged = {nullptr, to, kRows * kDrafts * max_slots, kDrafts * max_slots, max_slots},
         .binding = binding.data()},
        {}));
    return Unpack(out.Download(), to);
  }

  static std::vector<float> Unpack(const std::vector<std::byte>& bytes, Dtype type) {
    std::vector<float> out(bytes.size() / DtypeBytes(type));
    for (size_t i = 0; i < out.size(); ++i) {
      if (type == Dtype::kF32) {
        std::memcpy(&out[i], bytes.data() + i * sizeof(float), sizeof(float));
      } else {
        Bf16 half;
        std::memcpy(&half, bytes.data() + i * sizeof half, sizeof half);
        out[i] = ToFloat(half);
      }
    }
    return out;
  }

  static ScoredRow RowOf(uint32_t score_row, uint32_t next_n) {
    return {.request = 7, .next_n = next_n, .position = 0, .score_row = score_row};
  }

  bool staging_ = true;
};
SPIN_TEST_ON_EVERY_DEVICE(StageTest);

// Lengths around what one thread and one group of threads copy, at addresses that allow wide
// accesses and at others.
TEST_P(StageTest, CopiesWhatWasScoredAndNothingElse) {
  std::mt19937 random(3);
  std::normal_distribution<float> normal(-1, 3);
  for (const Dtype from : {Dtype::kF32, Dtype::kBF16}) {
    for (const Dtype to : {Dtype::kF32, Dtype::kBF16}) {
      for (const int64_t stride : {9000, 8999}) {
        for (const int64_t max_slots : {8704, 8193}) {
          SCOPED_TRACE(::testing::Message() << stride << " to " << max_slots);
          std::vector<float> scores(kLayers * kRows * kDrafts * stride);
          for (float& score : scores) {
            score = normal(random);
            if (from == Dtype::kBF16) score = reference::RoundToBf16(score);
          }
          const std::vector<int32_t> kept = {8193, 8190, 77, 0, 1, 3, 8192, 4, 20, 20, 20, 20};
          const std::vector<ScoredRow> rows = {
              RowOf(0, 2), {.request = kPaddingRow, .next_n = 2}, RowOf(2, 1)};
          const std::vector<float> staged = Stage(rows, kept, from, to, scores, max_slots);
          for (int64_t v = 0; v < kLayers * kRows * kDrafts; ++v) {
            const int64_t row = v / kDrafts % kRows;
            const bool copied = row == 0 || (row == 2 && v % kDrafts == 0);
            for (int64_t c = 0; c < max_slots; ++c) {
              float expected = kUntouched;
              if (copied && c < kept[v]) expected = scores[v * stride + c];
              if (to == Dtype::kBF16) expected = reference::RoundToBf16(expected);
              ASSERT_EQ(staged[v * max_slots + c], expected) << v << " " << c;
            }
          }
        }
      }
    }
  }
}

TEST_P(StageTest, OneLayerAtATime) {
  const std::vector<float> scores(kLayers * kRows * kDrafts * 64, 5);
  const std::vector<int32_t> kept(kLayers * kRows * kDrafts, 64);
  const std::vector<float> staged = Stage({RowOf(0, 2), RowOf(1, 2), RowOf(2, 2)}, kept,
                                          Dtype::kF32, Dtype::kF32, scores, 64, {1, 1});
  const auto half = staged.begin() + static_cast<std::ptrdiff_t>(staged.size() / 2);
  EXPECT_THAT(std::vector(staged.begin(), half), Each(kUntouched));
  EXPECT_THAT(std::vector(half, staged.end()), Each(5));
}

TEST_P(StageTest, NeverWritesPastItsRow) {
  const std::vector<float> scores(kLayers * kRows * kDrafts * 128, 5);
  const std::vector<int32_t> kept(kLayers * kRows * kDrafts, 1 << 30);
  const std::vector<float> staged =
      Stage({RowOf(0, 1)}, kept, Dtype::kF32, Dtype::kF32, scores, 64, {0, 1});
  EXPECT_THAT(std::vector(staged.begin() + 64, staged.end()), Each(kUntouched));
}

TEST_P(StageTest, NanStaysNan) {
  std::vector<float> scores(kLayers * kRows * kDrafts * 64, NAN);
  const std::vector<int32_t> kept(kLayers * kRows * kDrafts, 64);
  const std::vector<float> staged =
      Stage({RowOf(0, 1)}, kept, Dtype::kF32, Dtype::kBF16, scores, 64, {0, 1});
  for (int c = 0; c < 64; ++c) EXPECT_TRUE(std::isnan(staged[c])) << c;
}

TEST_P(StageTest, WithoutAStagingAreaNothingIsCopied) {
  staging_ = false;
  const std::vector<float> scores(kLayers * kRows * kDrafts * 64, 5);
  const std::vector<int32_t> kept(kLayers * kRows * kDrafts, 64);
  EXPECT_THAT(Stage({RowOf(0, 1)}, kept, Dtype::kF32, Dtype::kF32, scores, 64), Each(kUntouched));
}

}  // namespace
}  // namespace spin::kernels
