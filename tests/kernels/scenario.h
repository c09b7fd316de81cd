// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "tests/kernels/reference.h"
#include "tests/kernels/test_session.h"

namespace spin::kernels {

// A session that lives through random decode steps, beside the brute-force model of it. Shape,
// policy, context lengths, drafts, verdicts and scores are all drawn from the seed.
class Scenario {
 public:
  enum class Kind {
    kAny,     // of every shape, with drafts and jumps
    kDecode,  // bf16 in blocks of 64, mostly without jumps: where pages have summaries that serve
  };

  Scenario(const TestDevice& device, uint64_t seed, Kind kind = Kind::kAny);

  // One decode step of some requests; fails the test where device and model differ.
  void Step();

 private:
  struct Request {
    int64_t position;
    uint64_t key_hash;
    std::vector<reference::LayerModel> layers;
  };

  int64_t Below(int64_t bound) { return static_cast<int64_t>(random_() % bound); }
  template <typename T>
  T OneOf(std::initializer_list<T> choices) {
    return choices.begin()[Below(static_cast<int64_t>(choices.size()))];
  }
  SessionOptions DrawOptions();
  Policy DrawPolicy();
  float DrawScore();

  void DrawRows();
  void Advance(Request& request, uint32_t next_n);
  void CheckBlockScores();
  void CheckLists();
  void DrawVerdictsAndScores();
  void CheckAudit();
  AuditResult AuditInModel(const ScoredRow& row, int32_t layer);
  void ObserveInModel();
  void CheckStateAndCounters();

  std::mt19937_64 random_;
  const Kind kind_;
  const bool few_drafts_;
  Dtype score_dtype_;
  int score_kind_;
  double decay_;
  SessionOptions options_;
  Policy policy_;
  TestSession session_;
  std::vector<Request> requests_;
  std::vector<LayerCounters> counted_;  // by layer: what the session should have counted
  std::vector<LayerAudits> audits_;

  // Of the current step.
  std::vector<Row> rows_;
  std::vector<ScoredRow> scored_;
  ScoreTensor scores_{1, 1, 1, 1};
};

}  // namespace spin::kernels
