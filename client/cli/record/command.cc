// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include <CLI/CLI.hpp>

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "client/cli/command.h"
#include "client/cli/connection.h"
#include "client/cli/find_session.h"
#include "client/cli/flag_names.h"
#include "client/cli/interrupt.h"
#include "client/cli/json.h"
#include "client/cli/socket_probe.h"
#include "client/cli/terminal/numbers.h"
#include "client/cli/terminal/progress.h"
#include "client/cli/values.h"
#include "spin/recording.h"

namespace spin::cli {
namespace {

constexpr absl::Duration kPollEvery = absl::Milliseconds(200);
constexpr absl::Duration kAnswerWithin = absl::Seconds(5);  // of the engine, asked or told to stop

constexpr char kFooter[] =
    R"(The engine's process writes the file: FILE is a path as that process sees it, in a folder that is
there and that it may write to. It records whole requests: the keys of their context and the
queries of consecutive steps, which are data of users. So it is off unless the engine set
allow_recording in its SessionOptions, and only the engine's user and root may ask for it.

Which requests: each is taken with a chance of 1 in N (--sample), drawn once from its key and --seed,
so that a sample is not what happened to come first; ranks of a tensor-parallel engine draw alike.
With --requests R, R of them are recorded one after the other, a file each: chat-1.safetensors to
chat-R.safetensors for --out chat.safetensors.

FILE must not be there; only the engine's user can read what is written.
A trace ends after --steps or with its request, the recording at the first of its bounds. Ctrl-C ends
it early and keeps what is there. What to do with the files: 'spinctl eval --help'.

Examples:
  spinctl record --session 3f9a --out /var/tmp/chat.safetensors
  spinctl record --session 3f9a --out /var/tmp/chat.safetensors --steps 512 --max-time 5m
  spinctl record --session 3f9a --out /var/tmp/chat.safetensors --sample 100 --requests 8 \
      --max-bytes 8GiB --max-time 1h)";

constexpr FieldFlag kFieldFlags[] = {
    {"options.path", "--out"},
    {"options.max_steps", "--steps"},
    {"options.max_bytes", "--max-bytes"},
    {"options.max_time", "--max-time"},
    {"options.sample_every", "--sample"},
    {"options.max_requests", "--requests"},
};

struct RecordFlags {
  CommonFlags common;
  std::string session;
  std::string out;
  uint32_t steps = 256;
  uint32_t sample = 1;
  uint64_t seed = 0;
  uint32_t requests = 1;
  uint64_t max_bytes = uint64_t{1} << 30;
  std::string max_time = "60s";
};

bool InProgress(v1::RecordingState state) {
  return state == v1::RECORDING_STATE_ASKED || state == v1::RECORDING_STATE_WAITING ||
         state == v1::RECORDING_STATE_RUNNING;
}

// A recording that has been asked for, until its end.
class Watched {
 public:
  Watched(const Connection& connection, uint64_t session, uint64_t recording,
          const v1::RecordingOptions& options, absl::Duration max_time)
      : connection_(connection),
        session_(session),
        recording_(recording),
        max_time_(max_time),
        progress_("record", int64_t{options.max_steps()} * options.max_requests(),
                  DetectTerminal(STDERR_FILENO), stderr, absl::Now(), max_time) {}

  // What it came to: complete. Else why it did not.
  absl::StatusOr<v1::RecordingStatus> UntilItEnds();

  bool OutOfTime() const { return absl::Now() - start_ >= max_time_; }

 private:
  absl::StatusOr<v1::RecordingStatus> Look() const;
  void StopIfDue(const v1::RecordingStatus& now);
  absl::Status CheckAnswered(const v1::RecordingStatus& now) const;

  const Connection& connection_;
  const uint64_t session_;
  const uint64_t recording_;
  const absl::Duration max_time_;
  const absl::Time start_ = absl::Now();
  absl::Time stopped_ = absl::InfiniteFuture();
  Progress progress_;
};

absl::StatusOr<v1::RecordingStatus> Watched::Look() const {
  v1::GetSessionRequest request;
  request.set_session_id(session_);
  const auto response = connection_.Call(&v1::SpinService::Stub::GetSession, request);
  if (absl::IsNotFound(response.status())) {
    return absl::AbortedError("the session has ended, and with it the recording");
  }
  if (!response.ok()) return response.status();
  const v1::RecordingStatus& recording = response->session().recording();
  if (recording.recording_id() == recording_) return recording;
  return absl::AbortedError("another recording of this session has begun");
}

// Stops it when the user wants that, when the engine never looked at it, and when a bound that the
// engine holds by itself has passed, in case that it decodes nothing.
void Watched::StopIfDue(const v1::RecordingStatus& now) {
  const absl::Duration age = absl::Now() - start_;
  const bool unanswered = now.state() == v1::RECORDING_STATE_ASKED && age > kAnswerWithin;
  const bool due = InterruptSignal() != 0 || unanswered || age > max_time_ + kAnswerWithin;
  if (!due || stopped_ != absl::InfiniteFuture()) return;
  stopped_ = absl::Now();
  v1::StopRecordingRequest request;
  request.set_session_id(session_);
  request.set_recording_id(recording_);
  (void)connection_.Call(&v1::SpinService::Stub::StopRecording, request);
}

absl::Status Watched::CheckAnswered(const v1::RecordingStatus& now) const {
  if (absl::Now() - stopped_ <= kAnswerWithin) return absl::OkStatus();
  return absl::DeadlineExceededError(
      absl::StrCat("the engine did not end the recording after ", now.steps(),
                   " steps: it decodes nothing now; the file appears when it ends the request"));
}

absl::StatusOr<v1::RecordingStatus> Watched::UntilItEnds() {
  bool unanswered = true;
  for (;;) {
    const auto now = Look();
    if (!now.ok()) return now;
    if (now->state() == v1::RECORDING_STATE_COMPLETE) {
      progress_.Clear();
      return now;
    }
    unanswered = unanswered &&
                 (now->state() == v1::RECORDING_STATE_ASKED || stopped_ != absl::InfiniteFuture());
    if (!InProgress(now->state())) {
      if (InterruptSignal() != 0) return absl::CancelledError("interrupted");
      return unanswered
                 ? absl::FailedPreconditionError(absl::StrCat(
                       "the engine did not answer within ", absl::FormatDuration(kAnswerWithin),
                       ": it has no spin::Recorder, or it decodes nothing now"))
                 : absl::AbortedError(now->message());
    }
    progress_.Update(static_cast<int64_t>(now->steps()), absl::Now());
    StopIfDue(*now);
    if (absl::Status answered = CheckAnswered(*now); !answered.ok()) return answered;
    if (InterruptSignal() == 0) {
      SleepUnlessInterrupted(kPollEvery);
    } else {
      absl::SleepFor(kPollEvery);
    }
  }
}

// As the engine named them.
std::vector<std::string> FilesOf(const v1::RecordingOptions& options, int files) {
  const Recording named = {.path = options.path(),
                           .max_requests = static_cast<int>(options.max_requests())};
  std::vector<std::string> paths;
  for (int i = 0; i < files; ++i) paths.push_back(named.PathOf(i));
  return paths;
}

// Why it has less than was asked for; empty where that is the whole of it, or a request's own end.
std::string EarlyEnd(const v1::RecordingOptions& options, const v1::RecordingStatus& recording,
                     bool out_of_time) {
  const uint64_t asked = uint64_t{options.max_steps()} * options.max_requests();
  if (recording.steps() >= asked) return "";
  if (InterruptSignal() != 0) return "; interrupted";
  if (out_of_time) return "; ended by --max-time";
  return recording.requests() < options.max_requests() ? "; ended by --max-bytes" : "";
}

absl::Status PrintRecorded(const RecordFlags& flags, const v1::RecordingOptions& options,
                           const v1::RecordingStatus& recording, bool out_of_time) {
  const std::vector<std::string> files =
      FilesOf(options, static_cast<int>(std::min(recording.requests(), options.max_requests())));
  if (flags.common.json) {
    return Print(
        Dump({{"files", files}, {"steps", recording.steps()}, {"bytes", recording.bytes()}}));
  }
  const std::string of =
      options.max_requests() == 1
          ? ""
          : absl::StrCat(" of ", files.size(), " of ", options.max_requests(), " requests");
  return Print(absl::StrCat("recorded ", FormatCount(recording.steps()), " steps", of, ", ",
                            FormatBytes(recording.bytes()),
                            EarlyEnd(options, recording, out_of_time), "\n  ",
                            absl::StrJoin(files, "\n  "), "\n"));
}

absl::StatusOr<v1::RecordingOptions> OptionsOf(const RecordFlags& flags, absl::Duration max_time) {
  v1::RecordingOptions options;
  std::error_code error;
  options.set_path(std::filesystem::absolute(flags.out, error).string());
  if (error) return absl::InvalidArgumentError("--out: give an absolute path");
  options.set_max_steps(flags.steps);
  options.set_max_bytes(flags.max_bytes);
  options.set_sample_every(flags.sample);
  options.set_sample_seed(flags.seed);
  options.set_max_requests(flags.requests);
  options.mutable_max_time()->set_seconds(absl::ToInt64Seconds(max_time));
  return options;
}

absl::Status RunRecord(const RecordFlags& flags) {
  absl::Duration max_time;
  (void)absl::ParseDuration(flags.max_time, &max_time);  // checked with the flag
  const auto options = OptionsOf(flags, max_time);
  if (!options.ok()) return options.status();
  const Connection connection(SocketOrDefault(flags.common.socket));
  const auto session = FindSession(connection, "--session", flags.session);
  if (!session.ok()) return session.status();
  v1::StartRecordingRequest request;
  request.set_session_id(session->session_id());
  *request.mutable_options() = *options;
  const auto started = connection.Call(&v1::SpinService::Stub::StartRecording, request);
  if (!started.ok()) return WithFlagNames(started.status(), kFieldFlags);
  Watched watched(connection, session->session_id(), started->recording_id(), *options, max_time);
  const auto recorded = watched.UntilItEnds();
  if (!recorded.ok()) return recorded.status();
  if (absl::Status s = PrintRecorded(flags, *options, *recorded, watched.OutOfTime()); !s.ok())
    return s;
  return CheckInterrupt();
}

}  // namespace

void AddRecordCommand(CLI::App* app, Action* action) {
  const auto flags = std::make_shared<RecordFlags>();
  CLI::App* command =
      app->add_subcommand("record", "Have a live engine record traces of some of its requests");
  command->footer(kFooter);
  command
      ->add_option("--session", flags->session,
                   "Session to record (required); 'spinctl sessions' has ids")
      ->required()
      ->type_name("ID");
  command
      ->add_option("--out", flags->out, "Trace to write, *.safetensors, by the engine (required)")
      ->required()
      ->check(Utf8())
      ->type_name("FILE");
  command->add_option("--steps", flags->steps, "At most so many decode steps of a request")
      ->check(IntegerIn(2, 65536))
      ->capture_default_str()
      ->type_name("N");
  command->add_option("--sample", flags->sample, "Take each request with a chance of 1 in N")
      ->check(IntegerIn(1, 1000000))
      ->capture_default_str()
      ->type_name("N");
  command->add_option("--seed", flags->seed, "Of the sample: another one takes other requests")
      ->check(Unsigned64())
      ->capture_default_str()
      ->type_name("SEED");
  command->add_option("--requests", flags->requests, "Record so many requests, a file each")
      ->check(IntegerIn(1, 64))
      ->capture_default_str()
      ->type_name("R");
  command
      ->add_option("--max-bytes", flags->max_bytes,
                   "At most so many bytes of files in all; fewer steps if need be")
      ->transform(CLI::AsSizeValue(false))
      ->check(CLI::Range(uint64_t{1} << 12, uint64_t{1} << 40))
      ->default_str("1GiB")
      ->type_name("BYTES");
  command->add_option("--max-time", flags->max_time, "At most so long, 1s to 1h")
      ->check(DurationIn(absl::Seconds(1), absl::Hours(1)))
      ->capture_default_str()
      ->type_name("TIME");
  AddSocketFlag(command, &flags->common);
  AddJsonFlag(command, &flags->common);
  command->callback([=] { *action = [flags] { return RunRecord(*flags); }; });
}

}  // namespace spin::cli
