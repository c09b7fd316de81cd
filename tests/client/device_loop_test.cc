// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "spin/device_loop.h"

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>

#include <random>

#include "absl/strings/str_cat.h"
#include "spin/v1/service.grpc.pb.h"
#include "tests/client/device_engine.h"
#include "tests/client/session_fixture.h"

namespace spin {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// The decode loop on a device, through one captured graph, beside the host's: the same lists in
// every step.
class DeviceLoopTest : public SessionFixture, public ::testing::WithParamInterface<Form> {
 protected:
  void SetUp() override {
    backend_ = MakeEngineBackend();
    if (backend_ == nullptr) GTEST_SKIP() << "this machine has no such device";
  }

  server::Config DeviceConfig() {
    const std::string uuid = backend_->device_uuid();
    server::Config config = SpindConfig();
    config.socket = folder_.File("device");
    config.device = uuid == "CPU" ? "cpu" : absl::StrCat("cuda:", uuid);
    return config;
  }

  void StartDeviceSpind() {
    device_spind_.reset();
    auto spind = server::Spind::Start(DeviceConfig());
    ASSERT_TRUE(spind.ok()) << spind.status();
    device_spind_ = *std::move(spind);
  }

  SessionOptions DeviceOptions() {
    SessionOptions options = Options(GetParam().executor);
    options.socket = folder_.File("device");
    options.device_uuid = backend_->device_uuid();
    options.state = ElementType::kBFloat16;
    return options;
  }

  DeviceEngine EngineOf(Session* session, const SessionOptions& options) {
    return DeviceEngine(backend_.get(), session, options, GetParam().lists_made);
  }

  // What the spind at this socket has counted of its session's layers, audits among them.
  std::string LayerCounts(const std::string& socket) {
    const auto stub = v1::SpinService::NewStub(
        grpc::CreateChannel("unix:" + socket, grpc::InsecureChannelCredentials()));
    grpc::ClientContext context;
    v1::WatchStatsResponse stats;
    const auto reader = stub->WatchStats(&context, {});
    EXPECT_TRUE(reader->Read(&stats) && stats.sessions_size() == 1);
    context.TryCancel();
    v1::SessionStats layers;
    layers.mutable_layers()->Swap(stats.mutable_sessions(0)->mutable_layers());
    return layers.DebugString();
  }

  std::vector<int32_t> AllBlocks(int64_t slots) {
    std::vector<int32_t> all((slots + 63) / 64);
    for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<int32_t>(i);
    return all;
  }

  // Whole lives of requests that grow over page borders, enter and leave, in one batch.
  void ExpectAgreement(ElementType state, int steps) {
    StartSpind();
    StartDeviceSpind();
    SessionOptions host_options = Options();
    host_options.state = state;
    host_options.policy.exploration = 0.1;
    host_options.policy.audit_every = 7;
    host_options.policy.seed = 99;
    SessionOptions device_options = host_options;
    device_options.socket = folder_.File("device");
    device_options.executor = GetParam().executor;
    device_options.device_uuid = backend_->device_uuid();
    const auto host = Open(host_options);
    const auto device = Open(device_options);
    ToyEngine host_engine = Engine();
    DeviceEngine device_engine = EngineOf(device.get(), device_options);

    struct Life {
      Request on_host;
      Request on_device;
      int64_t position;
      int64_t end;
      int next_n = 1;
    };
    std::mt19937_64 random(5);
    const auto below = [&](int64_t bound) { return static_cast<int64_t>(random() % bound); };
    std::vector<Life> lives;
    for (int step = 0, born = 0; step < steps; ++step) {
      SCOPED_TRACE(::testing::Message() << "step " << step);
      while (lives.size() < 4 && (lives.empty() || below(8) == 0)) {
        const std::string key = absl::StrCat("request ", born++);
        // Many begin shortly before a page ends.
        const int64_t start = below(2) == 0 ? 4096 * (1 + below(2)) - 20 : 200 + below(3000);
        const int64_t slots = start + 600;
        lives.push_back({host->OpenRequest(key, slots), device->OpenRequest(key, slots), start,
                         start + 40 + below(200)});
        ASSERT_TRUE(lives.back().on_device.status().ok()) << lives.back().on_device.status();
      }
      std::shuffle(lives.begin(), lives.end(), random);
      std::vector<StepRow> host_rows, device_rows;
      std::vector<int> accepted, next_n;
      for (Life& life : lives) {
        host_rows.push_back({&life.on_host, life.position, life.next_n});
        device_rows.push_back({&life.on_device, life.position, life.next_n});
        accepted.push_back(1 + static_cast<int>(below(life.next_n)));
        next_n.push_back(1 + static_cast<int>(below(max_next_n_)));
      }
      const EndOptions end = {.accepted = accepted, .next_n = next_n};
      const auto expected = host_engine.RunStep(*host, host_rows, end);
      const auto lists = device_engine.RunStep(device_rows, end);
      ASSERT_EQ(device_engine.reasons(), host_engine.reasons());
      ASSERT_EQ(lists, expected);
      for (size_t r = 0; r < lives.size(); ++r) {
        lives[r].position += accepted[r];
        lives[r].next_n = next_n[r];
      }
      lives.erase(std::remove_if(lives.begin(), lives.end(),
                                 [](const Life& life) { return life.position >= life.end; }),
                  lives.end());
    }
    const SessionStats stats = device->stats();
    EXPECT_GT(stats.rows_by_reason[static_cast<int>(Reason::kNone)], steps);
    EXPECT_GT(stats.rows_by_reason[static_cast<int>(Reason::kAudit)], 0);
    EXPECT_EQ(stats.rows_by_reason[static_cast<int>(Reason::kStale)], 0);
    const std::string counted = LayerCounts(host_options.socket);
    EXPECT_THAT(counted, HasSubstr("audited_rows"));
    EXPECT_TRUE(Eventually([&] { return LayerCounts(device_options.socket) == counted; }))
        << LayerCounts(device_options.socket) << " is not " << counted;
  }

  std::unique_ptr<EngineBackend> backend_;
  std::unique_ptr<server::Spind> device_spind_;
};

INSTANTIATE_TEST_SUITE_P(, DeviceLoopTest, ::testing::ValuesIn(kForms), FormName);

TEST_P(DeviceLoopTest, OneGraphServesAThousandSteps) {
  ExpectAgreement(ElementType::kBFloat16, 1000);
}

TEST_P(DeviceLoopTest, OneGraphServesFp32State) { ExpectAgreement(ElementType::kFloat32, 150); }

TEST_P(DeviceLoopTest, DraftsAreCommittedAfterTheVerdict) {
  max_next_n_ = 4;
  ExpectAgreement(ElementType::kBFloat16, 150);
}

// The staging area may have another type than the scores: then lists are those of rounded scores.
TEST_P(DeviceLoopTest, ScoresAreStagedInHalfThePrecision) {
  if (GetParam().executor == Executor::kInline) GTEST_SKIP() << "stages nothing";
  StartDeviceSpind();
  SessionOptions options = DeviceOptions();
  options.staged_scores = ElementType::kBFloat16;
  const auto session = Open(options);
  DeviceEngine engine = EngineOf(session.get(), options);
  Request request = session->OpenRequest("a", 5000);
  for (int64_t position = 4000; position < 4020; ++position) {
    const auto lists = engine.RunStep({{&request, position}});
    if (position == 4000) continue;
    EXPECT_THAT(engine.reasons(), ElementsAre(Reason::kNone));
    EXPECT_THAT(lists, Each(ElementsAre(::testing::SizeIs(32))));
  }
}

TEST_P(DeviceLoopTest, WithoutSpindAllBlocksAreKeptAndTheGraphIsSparseOnceItComes) {
  const SessionOptions options = DeviceOptions();
  const auto session = *Session::Create(options);
  DeviceEngine engine = EngineOf(session.get(), options);
  Request request = session->OpenRequest("a", 5000);
  int64_t position = 4000;
  EXPECT_THAT(engine.RunStep({{&request, position}}), Each(ElementsAre(AllBlocks(position + 1))));
  EXPECT_THAT(engine.reasons(), ElementsAre(Reason::kNoSidecar));

  StartDeviceSpind();
  ASSERT_TRUE(session->WaitUntilReady(absl::Seconds(20)).ok());
  ASSERT_TRUE(Eventually([&] { return request.status().ok(); }));
  engine.RunStep({{&request, ++position}});
  EXPECT_THAT(engine.reasons(), ElementsAre(Reason::kCold));
  EXPECT_THAT(engine.RunStep({{&request, ++position}}), Each(ElementsAre(::testing::SizeIs(32))));
}

TEST_P(DeviceLoopTest, GoesOnThroughARestart) {
  StartDeviceSpind();
  const SessionOptions options = DeviceOptions();
  const auto session = Open(options);
  DeviceEngine engine = EngineOf(session.get(), options);
  Request request = session->OpenRequest("a", 5000);
  int64_t position = 4000;
  for (int step = 0; step < 3; ++step) engine.RunStep({{&request, position++}});
  EXPECT_THAT(engine.reasons(), ElementsAre(Reason::kNone));

  // It ends while a step is under way: what was begun is finished over the old mapping.
  engine.Begin({{&request, position}});
  engine.Replay();
  device_spind_.reset();
  engine.End({{&request, position}});
  engine.Synchronize();
  ++position;
  ASSERT_TRUE(Eventually([&] { return !session->status().ok(); }));
  EXPECT_THAT(engine.RunStep({{&request, position}}), Each(ElementsAre(AllBlocks(position + 1))));
  EXPECT_THAT(engine.reasons(), ElementsAre(Reason::kNoSidecar));

  StartDeviceSpind();
  ASSERT_TRUE(Eventually([&] { return session->status().ok() && request.status().ok(); }));
  engine.RunStep({{&request, ++position}});
  EXPECT_THAT(engine.RunStep({{&request, ++position}}), Each(ElementsAre(::testing::SizeIs(32))));
}

TEST_P(DeviceLoopTest, AbandonedStepIsNotObserved) {
  StartDeviceSpind();
  const SessionOptions options = DeviceOptions();
  const auto session = Open(options);
  DeviceEngine engine = EngineOf(session.get(), options);
  Request request = session->OpenRequest("a", 5000);
  engine.RunStep({{&request, 4000}});
  engine.Begin({{&request, 4001}});  // and nothing more
  EXPECT_THAT(engine.RunStep({{&request, 4002}}), Each(ElementsAre(AllBlocks(4003))));
  EXPECT_THAT(engine.reasons(), ElementsAre(Reason::kCold));
  engine.RunStep({{&request, 4003}});
  EXPECT_THAT(engine.reasons(), ElementsAre(Reason::kNone));
}

TEST_P(DeviceLoopTest, ForkIsACopyOfWhatTheParentsLastStepLeft) {
  StartDeviceSpind();
  const SessionOptions options = DeviceOptions();
  const auto session = Open(options);
  DeviceEngine engine = EngineOf(session.get(), options);
  Request parent = session->OpenRequest("parent", 5000);
  engine.RunStep({{&parent, 4000}});
  const std::vector<StepRow> rows = {{&parent, 4001}};
  engine.Begin(rows);
  backend_->Stall(absl::Milliseconds(300));
  engine.Replay();
  engine.End(rows);
  Request child = session->ForkRequest(parent, "child", 5000);
  EXPECT_TRUE(backend_->Idle());
  ASSERT_TRUE(child.status().ok()) << child.status();
  engine.RunStep({{&parent, 4002}, {&child, 4002}});
  EXPECT_THAT(engine.reasons(), ElementsAre(Reason::kNone, Reason::kCold));
  engine.RunStep({{&parent, 4003}, {&child, 4003}});
  EXPECT_THAT(engine.reasons(), Each(Reason::kNone));
}

TEST_P(DeviceLoopTest, PagesOfADroppedRequestComeBackWhenTheDeviceIsDone) {
  slab_bytes_ = 24 << 20;
  StartDeviceSpind();
  SessionOptions options = DeviceOptions();
  const auto session = Open(options);
  DeviceEngine engine = EngineOf(session.get(), options);
  for (int life = 0; life < 50; ++life) {  // far more than fit at a time
    Request request = session->OpenRequest(absl::StrCat("r", life), 16384);
    ASSERT_TRUE(Eventually([&] { return request.status().ok(); })) << request.status();
    engine.RunStep({{&request, 4000}});
  }
}

// As engines warm their launches up before they capture them.
TEST_P(DeviceLoopTest, LaunchesBeforeTheFirstStepDoNothing) {
  StartDeviceSpind();
  const SessionOptions options = DeviceOptions();
  const auto session = Open(options);
  DeviceEngine engine = EngineOf(session.get(), options);
  Request request = session->OpenRequest("a", 5000);
  const StepRow row = {&request, 4000};
  engine.Replay();
  EXPECT_TRUE(engine.loop().Select(1, backend_->stream()).ok());
  EXPECT_THAT(engine.TakeLists({row}), Each(ElementsAre(::testing::IsEmpty())));
  engine.RunStep({row});
  EXPECT_THAT(engine.RunStep({{&request, 4001}}), Each(ElementsAre(::testing::SizeIs(32))));
}

TEST_P(DeviceLoopTest, RefusedStepHasNoRows) {
  StartDeviceSpind();
  const SessionOptions options = DeviceOptions();
  const auto session = Open(options);
  DeviceEngine engine = EngineOf(session.get(), options);
  Request request = session->OpenRequest("a", 5000);
  engine.RunStep({{&request, 4000}});
  engine.RunStep({{&request, 4001}});
  EXPECT_FALSE(engine.loop().BeginStep({{&request, kMaxSlots}}, backend_->stream()).ok());
  engine.Replay();
  EXPECT_THAT(engine.TakeLists({{&request, 4002}}), Each(ElementsAre(::testing::IsEmpty())));
  engine.RunStep({{&request, 4002}});
  EXPECT_THAT(engine.RunStep({{&request, 4003}}), Each(ElementsAre(::testing::SizeIs(32))));
}

// Not before the device is done with the pages that it had; until then nothing is observed.
TEST_P(DeviceLoopTest, RequestThatGoesBackIsOpenedAnewAndSparseAgain) {
  StartDeviceSpind();
  const SessionOptions options = DeviceOptions();
  const auto session = Open(options);
  DeviceEngine engine = EngineOf(session.get(), options);
  Request request = session->OpenRequest("a", 5000);
  engine.RunStep({{&request, 4000}});
  EXPECT_THAT(engine.RunStep({{&request, 4001}}), Each(ElementsAre(::testing::SizeIs(32))));
  int64_t position = 3000;
  EXPECT_THAT(engine.RunStep({{&request, position++}}), Each(ElementsAre(AllBlocks(3001))));
  EXPECT_TRUE(Eventually([&] {
    return engine.RunStep({{&request, position++}})[0][0].size() < 40;  // of 47 blocks
  }));
}

// Where tokens share a slot the first ones of a request see none.
TEST_P(DeviceLoopTest, RowWithoutASlotHasNothingToScore) {
  StartDeviceSpind();
  SessionOptions options = DeviceOptions();
  options.model.tokens_per_slot = 4;
  const auto session = Open(options);
  DeviceEngine engine = EngineOf(session.get(), options);
  Request request = session->OpenRequest("a", 100);
  for (const int64_t position : {0, 2}) {
    const absl::Status begun = engine.loop().BeginStep({{&request, position}}, backend_->stream());
    EXPECT_TRUE(begun.ok()) << begun;
    EXPECT_TRUE(engine.loop().EndStep(backend_->stream()).ok());
  }
}

TEST_P(DeviceLoopTest, BadArgumentsAreNamed) {
  StartDeviceSpind();
  SessionOptions options = DeviceOptions();
  const auto session = Open(options);
  DeviceEngine engine = EngineOf(session.get(), options);
  DeviceLoop& loop = engine.loop();
  void* const stream = backend_->stream();
  Request request = session->OpenRequest("a", 5000);
  const auto said = [](const absl::Status& status) { return std::string(status.message()); };
  EXPECT_THAT(said(DeviceLoop::Create(session.get(), {}).status()), HasSubstr("block_table"));
  EXPECT_THAT(said(DeviceLoop::Create(nullptr, {}).status()), HasSubstr("session"));
  EXPECT_THAT(said(loop.Observe({0, 1}, {.data = &request, .type = ElementType{7}}, 1, stream)),
              HasSubstr("scores.type"));
  EXPECT_THAT(said(loop.BeginStep({{&request, kMaxSlots}}, stream)), HasSubstr("rows[0]"));
  EXPECT_THAT(said(loop.BeginStep({{&request, 10, 2}}, stream)), HasSubstr("rows[0]"));
  EXPECT_THAT(said(loop.BeginStep(std::vector<StepRow>(5), stream)), HasSubstr("max_requests"));
  EXPECT_THAT(said(loop.SelectAndCompact(0, stream)), HasSubstr("rows"));
  EXPECT_THAT(said(loop.Compact(0, stream)), HasSubstr("rows"));
  EXPECT_THAT(said(loop.Observe({1, 2}, {.data = &request}, 1, stream)), HasSubstr("layers"));
  EXPECT_THAT(said(loop.Observe({0, 1}, {}, 1, stream)), HasSubstr("scores.data"));
  EXPECT_THAT(said(loop.Remap(0, nullptr, 1, 1, stream)), HasSubstr("topk"));
  EXPECT_EQ(loop.EndStep(stream).code(), absl::StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace spin
