// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "tests/client/engine_backend.h"

namespace spin {
namespace {

class CpuEngine final : public EngineBackend {
 public:
  std::string device_uuid() const override { return "CPU"; }
  void* stream() const override { return nullptr; }

  void Score(const PagedScoring& s, void*) const override {
    for (int32_t row = 0; row < s.rows; ++row) {
      for (int32_t draft = 0; draft < s.next_n; ++draft) {
        const int64_t at = int64_t{row} * s.next_n + draft;
        for (int32_t c = 0; c < s.slots[at]; ++c) {
          const int32_t page = s.table[int64_t{row} * s.table_stride + c / s.block];
          s.scores[at * s.scores_stride + c] =
              s.pages[(draft * s.page_count + page) * s.block + c % s.block];
        }
      }
    }
  }

  void Stall(absl::Duration) const override {}
  bool Idle() const override { return true; }

  std::function<void()> Capture(const std::function<void(void*)>& launches) const override {
    return [launches] { launches(nullptr); };
  }
};

}  // namespace

std::unique_ptr<EngineBackend> MakeEngineBackend() { return std::make_unique<CpuEngine>(); }

}  // namespace spin
