// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include <fcntl.h>
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <thread>

#include "absl/strings/str_cat.h"
#include "tests/client/device_engine.h"
#include "tests/client/session_fixture.h"

extern char** environ;

namespace spin {
namespace {

using ::testing::AnyOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

// Programs that lie beside this one.
std::string Program(const std::string& name) {
  return std::filesystem::read_symlink("/proc/self/exe").parent_path() / name;
}

pid_t Spawn(std::vector<std::string> argv) {
  std::vector<char*> raw;
  for (std::string& argument : argv) raw.push_back(argument.data());
  raw.push_back(nullptr);
  const pid_t pid = fork();
  if (pid != 0) return pid;
  dup2(open("/dev/null", O_WRONLY), STDOUT_FILENO);
  execve(raw[0], raw.data(), environ);
  _exit(127);
}

// The engine here, spind in a process of its own, which may be killed at any moment.
class TwoProcessesTest : public SessionFixture {
 protected:
  void SetUp() override {
    backend_ = MakeEngineBackend();
    if (backend_ == nullptr) GTEST_SKIP() << "this machine has no such device";
  }
  void TearDown() override { Kill(); }

  void Start() {
    const std::string uuid = backend_->device_uuid();
    std::vector<std::string> argv = launcher_;
    argv.insert(argv.end(), {Program("spind"), "--socket", folder_.File("s"), "--device",
                             uuid == "CPU" ? "cpu" : absl::StrCat("cuda:", uuid), "--slab-bytes",
                             "64MiB", "--shm-dir", folder_.path(), "--admin-address", "127.0.0.1:0",
                             "--sparsity", "0.5", "--audit-every", "0", "--log-level", "warn"});
    spind_pid_ = Spawn(std::move(argv));
  }
  // Whether spind can be put into namespaces of its own, which only matter on a GPU.
  bool CanUnshare() const { return geteuid() == 0 && backend_->device_uuid() != "CPU"; }
  void Kill() {
    if (spind_pid_ <= 0) return;
    kill(spind_pid_, SIGKILL);
    waitpid(spind_pid_, nullptr, 0);
    spind_pid_ = -1;
  }
  // Until SIGCONT.
  void Hang() {
    kill(spind_pid_, SIGSTOP);
    waitpid(spind_pid_, nullptr, WUNTRACED);  // until the last of its threads has stopped
  }
  int Spinctl(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), Program("spinctl"));
    arguments.insert(arguments.end(), {"--socket", folder_.File("s")});
    int status = -1;
    waitpid(Spawn(arguments), &status, 0);
    return WEXITSTATUS(status);
  }

  SessionOptions EngineOptions() {
    SessionOptions options = Options(executor_);
    options.step_timeout = step_timeout_;
    options.device_uuid = backend_->device_uuid();
    options.state = ElementType::kBFloat16;
    return options;
  }

  // The engine's whole start, as the others of its steps use it.
  void StartEngine() {
    Start();
    session_ = Open(EngineOptions());
    engine_ = std::make_unique<DeviceEngine>(backend_.get(), session_.get(), EngineOptions(),
                                             lists_made_);
    request_ = session_->OpenRequest("a", 8000);
    ASSERT_TRUE(request_.status().ok()) << request_.status();
    for (int step = 0; step < 3; ++step) RunStep();
    ASSERT_THAT(lists_, Each(ElementsAre(SizeIs(32))));
  }

  void RunStep() {
    lists_ = engine_->RunStep({{&request_, position_}});
    ++position_;
  }
  // As many blocks as there are, in every layer.
  bool AllKept() const {
    for (const auto& layer : lists_) {
      if (layer[0].size() != static_cast<size_t>((position_ + 63) / 64)) return false;
    }
    return true;
  }

  void ExpectSparseAgain() {
    ASSERT_TRUE(Eventually([&] { return session_->status().ok() && request_.status().ok(); }))
        << session_->status();
    RunStep();
    EXPECT_THAT(engine_->reasons(), ElementsAre(AnyOf(Reason::kCold, Reason::kNone)));
    RunStep();
    EXPECT_THAT(engine_->reasons(), ElementsAre(Reason::kNone));
    EXPECT_THAT(lists_, Each(ElementsAre(SizeIs(32))));
  }

  Executor executor_ = Executor::kInline;
  ListsMade lists_made_ = ListsMade::kAtBeginning;
  absl::Duration step_timeout_ = absl::Seconds(20);
  std::unique_ptr<EngineBackend> backend_;
  std::vector<std::string> launcher_;  // a program that starts spind
  pid_t spind_pid_ = -1;
  std::unique_ptr<Session> session_;
  std::unique_ptr<DeviceEngine> engine_;
  Request request_;
  int64_t position_ = 4000;
  DeviceEngine::Lists lists_;
};

class BothExecutorsTest : public TwoProcessesTest, public ::testing::WithParamInterface<Form> {
 protected:
  BothExecutorsTest() {
    executor_ = GetParam().executor;
    lists_made_ = GetParam().lists_made;
  }
};
INSTANTIATE_TEST_SUITE_P(, BothExecutorsTest, ::testing::ValuesIn(kForms), FormName);

// spind runs steps here, and may hang while the engine's stream waits for it.
class SidecarExecutorTest : public TwoProcessesTest {
 protected:
  SidecarExecutorTest() {
    executor_ = Executor::kSidecar;
    step_timeout_ = absl::Milliseconds(500);
  }
  // A step that is handed over to a spind that has just stopped, when it was done with the one
  // before: that is what a step waits for when it begins.
  void RunStepAndHang() {
    const std::vector<StepRow> rows = {{&request_, position_++}};
    engine_->Begin(rows);
    engine_->Synchronize();
    Hang();
    engine_->Replay();
    engine_->End(rows);
    lists_ = engine_->TakeLists(rows);
  }
  uint64_t RowsWithStaleLists() const {
    return session_->stats().rows_by_reason[static_cast<int>(Reason::kStale)];
  }
};

TEST_P(BothExecutorsTest, KilledIdleAndRestartedManyTimes) {
  StartEngine();
  for (int life = 0; life < 3; ++life) {
    Kill();
    ASSERT_TRUE(Eventually([&] { return !session_->status().ok(); }));
    for (int step = 0; step < 5; ++step) {
      RunStep();
      EXPECT_TRUE(AllKept());
      EXPECT_THAT(engine_->reasons(), ElementsAre(Reason::kNoSidecar));
    }
    Start();
    ExpectSparseAgain();
  }
  EXPECT_GE(session_->stats().reconnects, 3u);
}

// What was enqueued goes on over the dead process's memory, which the engine's mapping keeps alive.
TEST_P(BothExecutorsTest, KilledMidStep) {
  StartEngine();
  engine_->Begin({{&request_, position_}});
  backend_->Stall(absl::Milliseconds(300));
  engine_->Replay();
  engine_->End({{&request_, position_}});
  Kill();
  engine_->Synchronize();
  ++position_;
  ASSERT_TRUE(Eventually([&] { return !session_->status().ok(); }));
  RunStep();
  EXPECT_TRUE(AllKept());
  EXPECT_THAT(engine_->reasons(), ElementsAre(Reason::kNoSidecar));
  Start();
  ExpectSparseAgain();
}

TEST_P(BothExecutorsTest, OffSwitchTurnsTheCapturedGraphToAllBlocks) {
  StartEngine();
  ASSERT_EQ(Spinctl({"policy", "set", "--all", "--disable"}), 0);
  ASSERT_TRUE(Eventually([&] {
    RunStep();
    return engine_->reasons()[0] == Reason::kOff;
  }));
  EXPECT_TRUE(AllKept());
  ASSERT_EQ(Spinctl({"policy", "set", "--all", "--enable"}), 0);
  ASSERT_TRUE(Eventually([&] {
    RunStep();
    return engine_->reasons()[0] == Reason::kNone;
  }));
  EXPECT_THAT(lists_, Each(ElementsAre(SizeIs(::testing::Lt(34)))));
}

TEST_P(BothExecutorsTest, EngineIsBuiltOnAThreadThatKnowsNoDevice) {
  std::thread([this] { StartEngine(); }).join();
  std::thread([this] { RunStep(); }).join();
  EXPECT_THAT(engine_->reasons(), ElementsAre(Reason::kNone));
}

TEST_F(SidecarExecutorTest, HungSpindIsWaitedForOnceOrTwiceAndComesBack) {
  StartEngine();
  RunStepAndHang();
  for (int step = 0; step < 20; ++step) {
    RunStep();
    EXPECT_TRUE(AllKept()) << step;
  }
  EXPECT_THAT(engine_->reasons(), ElementsAre(Reason::kDeadline));
  EXPECT_GE(RowsWithStaleLists(), 1);  // it was to have been sparse, if spind had been in time
  EXPECT_LE(RowsWithStaleLists(), 2);
  kill(spind_pid_, SIGCONT);
  ASSERT_TRUE(Eventually([&] {
    RunStep();
    return engine_->reasons()[0] == Reason::kNone;
  }));
  RunStep();
  EXPECT_FALSE(AllKept());
}

// The stream waits for a word that nobody will write, in memory whose owner is dead; then the
// engine lets go of that memory.
TEST_F(SidecarExecutorTest, KilledWhileTheEngineWaitsForIt) {
  StartEngine();
  RunStepAndHang();
  const std::vector<StepRow> rows = {{&request_, position_++}};
  engine_->Begin(rows);
  EXPECT_THAT(engine_->reasons(), ElementsAre(Reason::kNone));
  engine_->Replay();
  Kill();
  engine_->End(rows);
  lists_ = engine_->TakeLists(rows);
  EXPECT_TRUE(AllKept());
  ASSERT_TRUE(Eventually([&] { return !session_->status().ok(); }));
  RunStep();
  EXPECT_TRUE(AllKept());
  EXPECT_THAT(engine_->reasons(), ElementsAre(Reason::kNoSidecar));
  Start();
  ExpectSparseAgain();
}

// An engine that takes in requests must not wait for each of them.
TEST_F(TwoProcessesTest, HungSpindIsAskedOnceAndLearnsLaterWhatWasClosedAndOpened) {
  Start();
  SessionOptions options = EngineOptions();
  options.control_timeout = absl::Milliseconds(500);
  session_ = Open(options);
  const auto open_all = [&](const std::string& name) {
    std::vector<Request> requests;
    for (int i = 0; i < options.max_requests; ++i) {
      requests.push_back(session_->OpenRequest(absl::StrCat(name, i), 8000));
    }
    return requests;
  };
  const auto is_open = [](const Request& request) { return request.status().ok(); };
  std::vector<Request> early = open_all("early");
  ASSERT_TRUE(std::all_of(early.begin(), early.end(), is_open));
  Hang();
  early.clear();
  const std::vector<Request> late = open_all("late");
  EXPECT_FALSE(is_open(late[0]));
  for (size_t i = 1; i < late.size(); ++i) {
    EXPECT_TRUE(absl::IsUnavailable(late[i].status())) << late[i].status();
    EXPECT_THAT(std::string(late[i].status().message()), HasSubstr("calls time out"));
  }
  EXPECT_TRUE(absl::IsUnavailable(session_->Extend(late[1], 9000)));
  kill(spind_pid_, SIGCONT);
  EXPECT_TRUE(Eventually([&] { return std::all_of(late.begin(), late.end(), is_open); }));
}

TEST_F(TwoProcessesTest, AnotherDeviceIsRefusedByName) {
  Start();
  SessionOptions options = EngineOptions();
  options.device_uuid = "GPU-00000000-0000-0000-0000-000000000000";
  const auto session = *Session::Create(options);
  ASSERT_TRUE(Eventually([&] { return absl::IsFailedPrecondition(session->status()); }))
      << session->status();
  EXPECT_THAT(std::string(session->status().message()), HasSubstr("same GPU"));
}

TEST_F(TwoProcessesTest, ShmOfItsOwnIsNoHindrance) {
  if (!CanUnshare()) GTEST_SKIP() << "needs root and a GPU";
  launcher_ = {"/usr/bin/unshare", "--mount", "/bin/sh", "-c",
               "mount -t tmpfs none /dev/shm && exec \"$0\" \"$@\""};
  StartEngine();
}

// Both are process 1 of their pid namespaces, as in two containers of a pod.
TEST_F(TwoProcessesTest, DISABLED_EqualPids) {
  launcher_ = {"/usr/bin/unshare", "--pid", "--fork", "--kill-child", "--mount-proc"};
  Start();
  const auto session = *Session::Create(EngineOptions());
  ASSERT_TRUE(Eventually([&] { return absl::IsFailedPrecondition(session->status()); }))
      << session->status();
  EXPECT_THAT(std::string(session->status().message()), HasSubstr("shareProcessNamespace"));
}

TEST_F(TwoProcessesTest, EqualPidsAreNamed) {
  if (!CanUnshare()) GTEST_SKIP() << "needs root and a GPU";
  int status = -1;
  waitpid(Spawn({"/usr/bin/unshare", "--pid", "--fork", "--kill-child", "--mount-proc",
                 Program("spin_client_gpu_test"), "--gtest_also_run_disabled_tests",
                 "--gtest_filter=*DISABLED_EqualPids"}),
          &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

}  // namespace
}  // namespace spin
