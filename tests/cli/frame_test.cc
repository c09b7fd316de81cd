// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "client/cli/top/frame.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "client/cli/terminal/color.h"
#include "client/cli/terminal/wrap.h"
#include "client/cli/top/render.h"

namespace spin::cli {
namespace {

v1::WatchStatsResponse Look(int64_t seconds, uint64_t steps) {
  v1::WatchStatsResponse look;
  look.mutable_taken_at()->set_seconds(seconds);
  look.mutable_server()->set_epoch(1);
  look.mutable_server()->set_slab_bytes(1 << 20);
  v1::SessionStats* session = look.add_sessions();
  session->set_session_id(0xabc);
  session->set_model_name("model");
  session->set_steps(steps);
  session->set_target_sparsity(0.4);
  for (int l = 0; l < 2; ++l) {
    v1::LayerStats* layer = session->add_layers();
    layer->set_considered_blocks(100 * steps);
    layer->set_predicted_blocks(55 * steps);
    layer->set_explored_blocks(4 * steps);
    layer->set_pinned_blocks(1 * steps);
    layer->set_audit_topk_slots(1000);
    layer->set_audit_missed_slots(l == 0 ? 0 : 20);
  }
  session->mutable_predict_time()->add_buckets(steps);
  session->mutable_predict_time()->set_sum_seconds(1e-5 * static_cast<double>(steps));
  v1::FallbackCount* cold = session->add_fallback_rows();
  cold->set_reason(v1::FALLBACK_REASON_COLD);
  cold->set_rows(3);
  return look;
}

TEST(FrameTest, RatesAreDifferencesOfTwoLooks) {
  const v1::WatchStatsResponse before = Look(100, 10), now = Look(102, 30);
  const Frame frame = MakeFrame(now, &before);
  ASSERT_EQ(frame.sessions.size(), 1u);
  const SessionFrame& session = frame.sessions[0];
  EXPECT_TRUE(session.recent);
  EXPECT_DOUBLE_EQ(session.steps_per_second, 10);
  EXPECT_EQ(session.predicted_blocks, 2u * 55 * 20);
  EXPECT_DOUBLE_EQ(session.realized_sparsity, 0.4);
  EXPECT_NEAR(session.predict_seconds, 1e-5, 1e-12);
  EXPECT_DOUBLE_EQ(session.miss, 0.01);  // since the session was opened
}

TEST(FrameTest, OneLookShowsTotals) {
  const Frame frame = MakeFrame(Look(100, 10), nullptr);
  const SessionFrame& session = frame.sessions[0];
  EXPECT_FALSE(session.recent);
  EXPECT_TRUE(std::isnan(session.steps_per_second));
  EXPECT_EQ(session.predicted_blocks, 2u * 55 * 10);
}

TEST(FrameTest, AnotherEpochStartsAnew) {
  v1::WatchStatsResponse before = Look(100, 50);
  before.mutable_server()->set_epoch(2);
  const Frame frame = MakeFrame(Look(101, 10), &before);
  EXPECT_FALSE(frame.sessions[0].recent);
}

TEST(FrameTest, AnIdleSessionShowsTotalsAtNoRate) {
  const v1::WatchStatsResponse look = Look(100, 10), later = Look(101, 10);
  const SessionFrame session = MakeFrame(later, &look).sessions[0];
  EXPECT_FALSE(session.recent);
  EXPECT_DOUBLE_EQ(session.steps_per_second, 0);
  EXPECT_DOUBLE_EQ(session.realized_sparsity, 0.4);
}

TEST(FrameTest, ASessionWithoutStepsHasUnknownShares) {
  const SessionFrame session = MakeFrame(Look(100, 0), nullptr).sessions[0];
  EXPECT_TRUE(std::isnan(session.realized_sparsity));
  EXPECT_TRUE(std::isnan(session.predict_seconds));
}

TEST(RenderTest, FitsTheTerminal) {
  v1::WatchStatsResponse look = Look(100, 1000000);
  v1::SessionStats& session = *look.mutable_sessions(0);
  for (int l = 2; l < 128; ++l) *session.add_layers() = session.layers(1);
  for (const int columns : {40, 80, 200}) {
    Terminal terminal;
    terminal.tty = true;
    terminal.columns = columns;
    for (const std::string& line : RenderFrame(MakeFrame(look, nullptr), terminal)) {
      EXPECT_LE(DisplayWidth(line), static_cast<size_t>(columns)) << line;
    }
  }
}

TEST(RenderTest, ASwitchedOffSessionIsSaidToBeOff) {
  v1::WatchStatsResponse look = Look(100, 10);
  EXPECT_EQ(absl::StrJoin(RenderFrame(MakeFrame(look, nullptr), Terminal{}), "\n").find("off:"),
            std::string::npos);
  EXPECT_EQ(FrameJson(MakeFrame(look, nullptr))["sessions"][0]["enabled"], true);
  look.mutable_sessions(0)->set_switched_off(true);
  const std::string text = absl::StrJoin(RenderFrame(MakeFrame(look, nullptr), Terminal{}), "\n");
  EXPECT_NE(text.find(", off: every list keeps all blocks"), std::string::npos) << text;
  EXPECT_EQ(FrameJson(MakeFrame(look, nullptr))["sessions"][0]["enabled"], false);
}

constexpr char kReason[] =
    "expected miss 0.812 % at a total of 61.0 %, before 0.410 % at 40.0 %; a text as long as it "
    "gets";

TEST(RenderTest, WhyBudgetsAreWhatTheyAreIsNeverCut) {
  v1::WatchStatsResponse look = Look(100, 10);
  look.mutable_sessions(0)->mutable_budget()->set_reason(kReason);
  const Frame frame = MakeFrame(look, nullptr);
  EXPECT_NE(absl::StrJoin(RenderFrame(frame, Terminal{}), "\n")
                .find(absl::StrCat("    reason  ", kReason)),
            std::string::npos);
  Terminal narrow;
  narrow.tty = narrow.color = true;
  narrow.columns = 40;
  const std::string text = absl::StrJoin(RenderFrame(frame, narrow), "\n");
  for (const absl::string_view word : absl::StrSplit(kReason, ' ')) {
    EXPECT_NE(text.find(std::string(word)), std::string::npos) << word;
  }
}

TEST(WrapTest, ColoursEndWithTheLineAndGoOnInTheNext) {
  EXPECT_EQ(Wrap("one \033[2mtwo three\033[0m", 8),
            (std::vector<std::string>{"one \033[2mtwo\033[0m", "\033[2mthree\033[0m"}));
  EXPECT_EQ(Wrap("", 8), std::vector<std::string>{""});
  EXPECT_EQ(Wrap("a  b", 80), std::vector<std::string>{"a  b"});
  EXPECT_EQ(Wrap("longer than that", 2), (std::vector<std::string>{"longer", "than", "that"}));
}

}  // namespace
}  // namespace spin::cli
