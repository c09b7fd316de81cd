// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "spin/session.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <numeric>

#include "absl/strings/match.h"
#include "tests/client/session_fixture.h"

namespace spin {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::ElementsAreArray;

class SessionTest : public SessionFixture, public ::testing::WithParamInterface<Executor> {
 protected:
  std::vector<int32_t> AllBlocks(int64_t slots) {
    std::vector<int32_t> all((slots + 63) / 64);
    std::iota(all.begin(), all.end(), 0);
    return all;
  }
};

INSTANTIATE_TEST_SUITE_P(Executors, SessionTest,
                         ::testing::Values(Executor::kInline, Executor::kSidecar),
                         [](const auto& executor) {
                           return executor.param == Executor::kInline ? "Inline" : "Sidecar";
                         });

TEST_P(SessionTest, IsColdOnceThenSparse) {
  StartSpind();
  const auto session = Open(Options(GetParam()));
  ToyEngine engine = Engine();
  const Request request = session->OpenRequest("a", 5000);
  ASSERT_TRUE(request.status().ok()) << request.status();
  auto lists = engine.RunStep(*session, {{&request, 4000}});
  EXPECT_THAT(engine.reasons(), ElementsAre(Reason::kCold));
  EXPECT_EQ(lists[0][0], AllBlocks(4001));
  lists = engine.RunStep(*session, {{&request, 4001}});
  EXPECT_THAT(engine.reasons(), ElementsAre(Reason::kNone));
  EXPECT_EQ(lists[0][0].size(), 32u);  // half of 63 blocks
  EXPECT_EQ(lists[0][0].back(), 62);
}

TEST_P(SessionTest, WithoutSparsityNothingIsLeftOut) {
  StartSpind();
  SessionOptions options = Options(GetParam());
  options.policy.sparsity = 0;
  const auto session = Open(options);
  ToyEngine engine = Engine();
  const Request request = session->OpenRequest("a", 5000);
  for (int64_t position = 4000; position < 4004; ++position) {
    EXPECT_EQ(engine.RunStep(*session, {{&request, position}})[1][0], AllBlocks(position + 1));
  }
}

TEST_P(SessionTest, WithoutSpindAllBlocksAreKept) {
  const auto session = Session::Create(Options(GetParam()));
  ASSERT_TRUE(session.ok());
  ToyEngine engine = Engine();
  const Request request = (*session)->OpenRequest("a", 5000);
  EXPECT_FALSE(request.status().ok());
  EXPECT_EQ(engine.RunStep(**session, {{&request, 100}})[0][0], AllBlocks(101));
  EXPECT_THAT(engine.reasons(), ElementsAre(Reason::kNoSidecar));
}

TEST_P(SessionTest, FindsSpindWhenItComesAndOpensWhatIsThere) {
  const auto session = Session::Create(Options(GetParam()));
  ASSERT_TRUE(session.ok());
  ToyEngine engine = Engine();
  const Request request = (*session)->OpenRequest("a", 5000);
  StartSpind();
  ASSERT_TRUE((*session)->WaitUntilReady(absl::Seconds(20)).ok());
  EXPECT_TRUE(request.status().ok()) << request.status();
  engine.RunStep(**session, {{&request, 4000}});
  engine.RunStep(**session, {{&request, 4001}});
  EXPECT_THAT(engine.reasons(), ElementsAre(Reason::kNone));
}

TEST_P(SessionTest, SurvivesARestartOfSpind) {
  StartSpind();
  const auto session = Open(Options(GetParam()));
  ToyEngine engine = Engine();
  const Request request = session->OpenRequest("a", 5000);
  int64_t position = 4000;
  engine.RunStep(*session, {{&request, position++}});
  engine.RunStep(*session, {{&request, position++}});
  ASSERT_THAT(engine.reasons(), ElementsAre(Reason::kNone));
  spind_ = nullptr;
  ASSERT_TRUE(Eventually([&] { return !session->status().ok(); }));
  EXPECT_EQ(engine.RunStep(*session, {{&request, position++}})[0][0], AllBlocks(position));
  EXPECT_THAT(engine.reasons(), ElementsAre(Reason::kNoSidecar));
  StartSpind();
  ASSERT_TRUE(session->WaitUntilReady(absl::Seconds(20)).ok());
  engine.RunStep(*session, {{&request, position++}});
  EXPECT_THAT(engine.reasons(), ElementsAre(Reason::kCold));
  engine.RunStep(*session, {{&request, position++}});
  EXPECT_THAT(engine.reasons(), ElementsAre(Reason::kNone));
  EXPECT_EQ(session->stats().reconnects, 1u);
}

TEST_P(SessionTest, AStepThatOutlivesItsSpindIsForgotten) {
  StartSpind();
  const auto session = Open(Options(GetParam()));
  ToyEngine engine = Engine();
  const Request request = session->OpenRequest("a", 5000);
  engine.RunStep(*session, {{&request, 4000}});
  const std::vector<StepRow> rows = {{&request, 4001}};
  {
    Step step = session->BeginStep(rows);
    const auto kept = step.Kept(0, 0);
    EXPECT_FALSE(kept.all);
    const std::vector<int32_t> before(kept.blocks.begin(), kept.blocks.end());
    spind_ = nullptr;
    ASSERT_TRUE(Eventually([&] { return !session->status().ok(); }));
    EXPECT_EQ(std::vector<int32_t>(kept.blocks.begin(), kept.blocks.end()), before);
    engine.ScoreLayer(step, rows, 0);
    engine.ScoreLayer(step, rows, 1);
    step.End();
  }
  engine.RunStep(*session, {{&request, 4002}});
  EXPECT_THAT(engine.reasons(), ElementsAre(Reason::kNoSidecar));
}

TEST_P(SessionTest, ADroppedStepIsScoredInFullNextTime) {
  StartSpind();
  const auto session = Open(Options(GetParam()));
  ToyEngine engine = Engine();
  const Request request = session->OpenRequest("a", 5000);
  engine.RunStep(*session, {{&request, 4000}});
  { Step dropped = session->BeginStep({{&request, 4001}}); }
  engine.RunStep(*session, {{&request, 4002}});
  EXPECT_THAT(engine.reasons(), ElementsAre(Reason::kCold));
  engine.RunStep(*session, {{&request, 4003}});
  EXPECT_THAT(engine.reasons(), ElementsAre(Reason::kNone));
}

TEST_P(SessionTest, AStepWithoutAllItsLayersIsNotObserved) {
  StartSpind();
  const auto session = Open(Options(GetParam()));
  ToyEngine engine = Engine();
  const Request request = session->OpenRequest("a", 5000);
  engine.RunStep(*session, {{&request, 4000}});
  const std::vector<StepRow> rows = {{&request, 4001}};
  Step step = session->BeginStep(rows);
  engine.ScoreLayer(step, rows, 1);
  step.End();
  engine.RunStep(*session, {{&request, 4002}});
  EXPECT_THAT(engine.reasons(), ElementsAre(Reason::kCold));
}

TEST_P(SessionTest, AJumpAndAStepBackKeepAllBlocksAndHeal) {
  StartSpind();
  const auto session = Open(Options(GetParam()));
  ToyEngine engine = Engine();
  const Request request = session->OpenRequest("a", 9000);
  engine.RunStep(*session, {{&request, 4000}});
  EXPECT_EQ(engine.RunStep(*session, {{&request, 4100}})[0][0], AllBlocks(4101));
  EXPECT_THAT(engine.reasons(), ElementsAre(Reason::kPosition));
  engine.RunStep(*session, {{&request, 4101}});
  EXPECT_THAT(engine.reasons(), ElementsAre(Reason::kNone));
  EXPECT_EQ(engine.RunStep(*session, {{&request, 4000}})[0][0], AllBlocks(4001));
  EXPECT_THAT(engine.reasons(), ElementsAre(Reason::kPosition));
  int64_t position = 4001;
  EXPECT_TRUE(Eventually([&] {  // it is reopened, and so cold, in the background
    engine.RunStep(*session, {{&request, position++}});
    return engine.reasons()[0] == Reason::kNone;
  }));
}

TEST_P(SessionTest, MoreRequestsThanACallMayHaveAreOpenedAsFarAsThereIsRoom) {
  const SessionOptions options = Options(GetParam());
  const auto session = Session::Create(options);
  ASSERT_TRUE(session.ok());
  std::vector<Request> requests;
  for (int i = 0; i < 600; ++i) {
    requests.push_back((*session)->OpenRequest(std::to_string(i), 100));
  }
  StartSpind();
  const auto open = [](const Request& request) { return request.status().ok(); };
  EXPECT_TRUE(Eventually([&] {
    return std::count_if(requests.begin(), requests.end(), open) == options.max_requests;
  }));
}

TEST_P(SessionTest, BadRowsKeepAllBlocksAndLeaveOthersAlone) {
  StartSpind();
  const auto session = Open(Options(GetParam()));
  ToyEngine engine = Engine();
  const Request good = session->OpenRequest("good", 5000);
  const Request other = session->OpenRequest("other", 5000);
  const Request never_opened;
  engine.RunStep(*session, {{&good, 4000}, {&other, 300}});
  engine.RunStep(*session, {{&good, 4001}, {&good, 4001}, {&never_opened, 10}, {nullptr, 5}});
  EXPECT_THAT(engine.reasons(),
              ElementsAre(Reason::kNone, Reason::kInvalid, Reason::kInvalid, Reason::kInvalid));
  engine.RunStep(*session, {{&good, 4002}, {&other, 301}});
  EXPECT_THAT(engine.reasons(), Each(Reason::kNone));
}

TEST_P(SessionTest, GarbagePositionsKeepAllAndDoNotCrash) {
  StartSpind();
  const auto session = Open(Options(GetParam()));
  const Request request = session->OpenRequest("a", 5000);
  for (int64_t position : {int64_t{-1}, INT64_MIN, INT64_MAX, int64_t{kMaxSlots} + 100}) {
    Step step = session->BeginStep({{&request, position}});
    EXPECT_EQ(step.Kept(0, 0).reason, Reason::kInvalid) << position;
    EXPECT_TRUE(step.Kept(0, 0).all);
  }
  // A context may be longer than was said: its blocks are named all the same.
  Step longer = session->BeginStep({{&request, kMaxSlots + 100}});
  EXPECT_THAT(longer.Kept(0, 0).blocks, ElementsAreArray(AllBlocks(kMaxSlots + 101)));
  Step step = session->BeginStep({{&request, 10, 77}});
  EXPECT_EQ(step.Kept(0, 0).reason, Reason::kInvalid);
  EXPECT_EQ(step.Kept(99, 0).blocks.size(), 0u);
  EXPECT_EQ(step.Kept(0, 99).blocks.size(), 0u);
  step.PutScores(99, {});
  step.PutScores(0, {});
  step.End();
}

TEST_P(SessionTest, ARequestWithoutRoomKeepsAllBlocksUntilThereIsSome) {
  slab_bytes_ = 4 << 20;
  StartSpind();
  const auto session = Open(Options(GetParam()));
  ToyEngine engine = Engine();
  std::vector<Request> fillers;
  while (fillers.empty() || fillers.back().status().ok()) {
    ASSERT_LT(fillers.size(), 5u) << "the slab should be full by now";
    fillers.push_back(session->OpenRequest("filler" + std::to_string(fillers.size()), 16384));
  }
  const Request& refused = fillers.back();
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(engine.RunStep(*session, {{&refused, 1000}})[0][0], AllBlocks(1001));
  EXPECT_THAT(engine.reasons(), ElementsAre(Reason::kCapacity));
  fillers.erase(fillers.begin());
  EXPECT_TRUE(Eventually([&] { return fillers.back().status().ok(); }));
}

TEST_P(SessionTest, WithoutRoomForTheSessionAllBlocksAreKeptForThatReason) {
  slab_bytes_ = 64 << 10;
  StartSpind();
  SessionOptions options = Options(GetParam());
  options.max_requests = 512;
  const auto session = Session::Create(options);
  ASSERT_TRUE(session.ok());
  ASSERT_TRUE(Eventually([&] { return absl::IsResourceExhausted((*session)->status()); }));
  ToyEngine engine = Engine();
  const Request request = (*session)->OpenRequest("a", 5000);
  EXPECT_EQ(engine.RunStep(**session, {{&request, 100}})[0][0], AllBlocks(101));
  EXPECT_THAT(engine.reasons(), ElementsAre(Reason::kCapacity));
  spind_ = nullptr;
  ASSERT_TRUE(Eventually([&] { return absl::IsUnavailable((*session)->status()); }));
  engine.RunStep(**session, {{&request, 101}});
  EXPECT_THAT(engine.reasons(), ElementsAre(Reason::kNoSidecar));
}

TEST_P(SessionTest, StateGrowsAheadOfNeed) {
  StartSpind();
  const auto session = Open(Options(GetParam()));
  ToyEngine engine = Engine();
  const Request request = session->OpenRequest("a", 100);
  EXPECT_EQ(request.capacity_slots(), 4096);
  engine.RunStep(*session, {{&request, 3000}});
  EXPECT_EQ(request.capacity_slots(), 4096);
  engine.RunStep(*session, {{&request, 3900}});
  EXPECT_TRUE(Eventually([&] { return request.capacity_slots() == 8192; }));
}

TEST_P(SessionTest, AKeyCanBeUsedAgainAtOnce) {
  StartSpind();
  const auto session = Open(Options(GetParam()));
  ToyEngine engine = Engine();
  for (int round = 0; round < 20; ++round) {
    const Request request = session->OpenRequest("same", 5000);
    ASSERT_TRUE(request.status().ok()) << request.status();
    engine.RunStep(*session, {{&request, 4000}});
    EXPECT_THAT(engine.reasons(), ElementsAre(Reason::kCold)) << "history of an earlier life";
    engine.RunStep(*session, {{&request, 4001}});
    EXPECT_THAT(engine.reasons(), ElementsAre(Reason::kNone));
  }
}

TEST_P(SessionTest, AForkGoesOnWithoutAFullScanOfItsOwnHistory) {
  StartSpind();
  const auto session = Open(Options(GetParam()));
  ToyEngine engine = Engine();
  const Request parent = session->OpenRequest("parent", 5000);
  engine.RunStep(*session, {{&parent, 4000}});
  const Request child = session->ForkRequest(parent, "child", 5000);
  ASSERT_TRUE(child.status().ok()) << child.status();
  engine.RunStep(*session, {{&parent, 4001}, {&child, 4001}});
  EXPECT_THAT(engine.reasons(), ElementsAre(Reason::kNone, Reason::kCold));
  const auto lists = engine.RunStep(*session, {{&parent, 4002}, {&child, 4002}});
  EXPECT_THAT(engine.reasons(), Each(Reason::kNone));
}

TEST_P(SessionTest, TheOffSwitchIsNoFallback) {
  StartSpind();
  SessionOptions options = Options(GetParam());
  options.policy.enabled = false;
  const auto session = Open(options);
  ToyEngine engine = Engine();
  const Request request = session->OpenRequest("a", 5000);
  EXPECT_EQ(engine.RunStep(*session, {{&request, 4000}})[0][0], AllBlocks(4001));
  EXPECT_THAT(engine.reasons(), ElementsAre(Reason::kOff));
  EXPECT_FALSE(IsFallback(Reason::kOff));
}

TEST_P(SessionTest, AnAuditScoresEverything) {
  StartSpind();
  SessionOptions options = Options(GetParam());
  options.policy.audit_every = 1;
  const auto session = Open(options);
  ToyEngine engine = Engine();
  const Request request = session->OpenRequest("a", 5000);
  engine.RunStep(*session, {{&request, 4000}});
  EXPECT_EQ(engine.RunStep(*session, {{&request, 4001}})[0][0], AllBlocks(4002));
  EXPECT_THAT(engine.reasons(), ElementsAre(Reason::kAudit));
}

TEST_P(SessionTest, ASupersededStepIsVoid) {
  StartSpind();
  const auto session = Open(Options(GetParam()));
  ToyEngine engine = Engine();
  const Request request = session->OpenRequest("a", 5000);
  Step first = session->BeginStep({{&request, 4000}});
  Step second = session->BeginStep({{&request, 4000}});
  EXPECT_EQ(first.Kept(0, 0).blocks.size(), 0u);
  first.End();
  EXPECT_EQ(second.Kept(0, 0).reason, Reason::kCold);
}

using SessionCreateTest = SessionFixture;

TEST_F(SessionCreateTest, ABadOptionIsNamed) {
  SessionOptions options = Options();
  options.model.topk = 0;
  EXPECT_EQ(Session::Create(options).status().message(), "model.topk: 0 is not in 1 to 2048");
}

TEST_F(SessionCreateTest, AnotherDeviceThanSpindsIsExplained) {
  StartSpind();
  SessionOptions options = Options();
  options.device_uuid = "GPU-12345678";
  const auto session = Session::Create(options);
  EXPECT_TRUE(Eventually([&] {
    return absl::IsFailedPrecondition((*session)->status()) &&
           absl::StrContains((*session)->status().message(),
                             "device_uuid: the engine runs on GPU-12345678");
  })) << (*session)->status();
}

TEST_F(SessionCreateTest, ABadKeyIsNamed) {
  StartSpind();
  const auto session = Open(Options());
  EXPECT_EQ(session->OpenRequest("", 1).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(session->OpenRequest("a", -1).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(session->OpenRequest(std::string(257, 'a'), 1).status().code(),
            absl::StatusCode::kInvalidArgument);
  const Request first = session->OpenRequest("a", 1);
  EXPECT_EQ(session->OpenRequest("a", 1).status().code(), absl::StatusCode::kAlreadyExists);
}

}  // namespace
}  // namespace spin
