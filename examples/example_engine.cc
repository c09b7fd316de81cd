// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

// A complete decode loop with Spin, to copy from. It plays an engine with two layers, two requests
// and a made-up indexer, and prints how many blocks each step scored. With no spind running it
// works too: it then scores all of them.
//
//   spind --socket /tmp/spind.sock &
//   example_engine /tmp/spind.sock        8 steps
//   example_engine /tmp/spind.sock 0      steps without end, as a server would: ten a second
//   example_engine /tmp/spind.sock 0 --allow-recording     and 'spinctl record' may ask for traces

#include <algorithm>
#include <cstdio>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/time/clock.h"
#include "made_up_indexer.h"
#include "spin/recorder.h"
#include "spin/session.h"

namespace {

constexpr int kLayers = 2;
constexpr int kBlock = 64;        // slots in an indexer KV page
constexpr int kTopk = 256;        // K
constexpr int kMaxSlots = 16384;  // longest context; here a slot is a token
constexpr absl::Duration kPause = absl::Milliseconds(100);  // between steps without end

constexpr char kUsage[] =
    "Usage: example_engine [SOCKET [STEPS [--allow-recording]]]\n"
    "Plays a small engine that uses the spind at SOCKET (or $SPIN_SOCKET): STEPS decode steps "
    "(8),\n"
    "or steps without end, ten a second, for 0. With --allow-recording 'spinctl record' may ask "
    "it\n"
    "for traces.\n";

struct Arguments {
  std::string socket;  // empty: $SPIN_SOCKET
  int steps = 8;       // 0: without end
  bool allow_recording = false;
};

// Nothing if they are not as kUsage has them.
std::optional<Arguments> ReadArguments(int argc, char** argv) {
  Arguments arguments;
  if (argc > 1) arguments.socket = argv[1];
  const bool flag = absl::StartsWith(arguments.socket, "-");  // one that is not known
  const bool number = argc <= 2 || absl::SimpleAtoi(argv[2], &arguments.steps);
  arguments.allow_recording = argc == 4 && std::string_view(argv[3]) == "--allow-recording";
  const bool rest = argc <= 3 || arguments.allow_recording;
  if (flag || !number || arguments.steps < 0 || !rest) return std::nullopt;
  return arguments;
}

// What the engine keeps of a request between steps.
struct Sequence {
  std::string key;
  spin::Request request;  // closes at spind when it is destroyed
  int64_t position;       // of the newest token
};

// Scores the kept blocks of one row into `out`, compacted: block by block, in list order.
void ScoreKept(const MadeUpIndexer& indexer, int layer, const Sequence& sequence,
               const spin::KeptBlocks& kept, float* out) {
  const int64_t slots = sequence.position + 1;
  const MadeUpIndexer::Query query = indexer.QueryAt(layer, sequence.position);
  for (const int32_t block : kept.blocks) {
    const int64_t first = int64_t{block} * kBlock;
    const int64_t end = std::min(first + kBlock, slots);  // the last block may be partial
    for (int64_t slot = first; slot < end; ++slot) *out++ = indexer.Score(layer, query, slot);
  }
}

// The indices of the K best of a compacted row, and back from there to slots.
std::vector<int64_t> TopSlots(const float* scores, const spin::KeptBlocks& kept, int64_t slots) {
  const int64_t blocks = (slots + kBlock - 1) / kBlock;
  const int64_t length = slots - kBlock * (blocks - static_cast<int64_t>(kept.blocks.size()));
  std::vector<int64_t> best(length);
  for (int64_t c = 0; c < length; ++c) best[c] = c;
  const int64_t k = std::min<int64_t>(kTopk, length);
  std::partial_sort(best.begin(), best.begin() + k, best.end(),
                    [scores](int64_t a, int64_t b) { return scores[a] > scores[b]; });
  best.resize(k);
  for (int64_t& c : best) c = int64_t{kept.blocks[c / kBlock]} * kBlock + c % kBlock;
  return best;  // the engine's attention reads these slots
}

// What 'spinctl record' gets: offers each sequence, and writes this step of the one that was taken.
void Record(const MadeUpIndexer& indexer, const std::vector<Sequence>& sequences,
            spin::Recorder* recorder, std::string* recorded) {
  for (const Sequence& sequence : sequences) {
    const auto slots = static_cast<int>(sequence.position);  // before this step's own
    if (!recorder->Wanted() || !recorder->Begin(sequence.key, slots + 1)) continue;
    *recorded = sequence.key;
    for (int layer = 0; layer < kLayers; ++layer) {
      recorder->PutKeys(layer, 0, indexer.Keys(layer, 0, slots), indexer.KeyScales(slots));
    }
  }
  for (const Sequence& sequence : sequences) {
    if (!recorder->active() || sequence.key != *recorded) continue;
    const auto slot = static_cast<int>(sequence.position);
    for (int layer = 0; layer < kLayers; ++layer) {
      const MadeUpIndexer::Query query = indexer.QueryAt(layer, slot);
      recorder->PutKeys(layer, slot, indexer.Keys(layer, slot, 1), indexer.KeyScales(1));
      recorder->PutStep(layer, slot, query.codes, query.weights);
    }
    recorder->EndStep();
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1 && (std::string_view(argv[1]) == "--help" || std::string_view(argv[1]) == "-h")) {
    std::fputs(kUsage, stdout);
    return 0;
  }
  const std::optional<Arguments> arguments = ReadArguments(argc, argv);
  if (!arguments.has_value()) {
    std::fputs(kUsage, stderr);
    return 2;
  }
  const int steps = arguments->steps;
  spin::SessionOptions options;
  options.socket = arguments->socket;
  options.model = {.name = "example",
                   .layers = kLayers,
                   .block_slots = kBlock,
                   .topk = kTopk,
                   .tokens_per_slot = 1,
                   .max_slots = kMaxSlots};
  options.max_requests = 8;
  options.client_name = "example_engine";
  options.allow_recording = arguments->allow_recording;

  auto created = spin::Session::Create(options);
  if (!created.ok()) {  // only bad options end up here
    std::fprintf(stderr, "example_engine: %s\n", created.status().ToString().c_str());
    return 2;
  }
  spin::Session& session = **created;
  const absl::Status ready = session.WaitUntilReady(absl::Seconds(2));
  if (!ready.ok()) std::printf("going on without Spin: %s\n", ready.ToString().c_str());

  std::vector<Sequence> sequences;  // two prompts of different lengths
  sequences.push_back({"request-a", session.OpenRequest("request-a", 10000), 9999});
  sequences.push_back({"request-b", session.OpenRequest("request-b", 6000), 5999});
  const MadeUpIndexer indexer(kLayers, kMaxSlots);
  spin::Recorder recorder(&session, {.layers = {0, 1},
                                     .heads = MadeUpIndexer::kHeads,
                                     .dim = MadeUpIndexer::kDim,
                                     .max_slots = kMaxSlots});
  std::string recorded;  // key of the sequence that is being recorded

  std::vector<float> scores(sequences.size() * kMaxSlots);  // reused from layer to layer
  for (int step_number = 0; steps == 0 || step_number < steps; ++step_number) {
    std::vector<spin::StepRow> rows;
    for (const Sequence& sequence : sequences)
      rows.push_back({&sequence.request, sequence.position, 1});

    spin::Step step = session.BeginStep(rows);
    std::printf("step %d:", step_number);
    for (int layer = 0; layer < kLayers; ++layer) {
      for (size_t r = 0; r < sequences.size(); ++r) {
        const spin::KeptBlocks kept = step.Kept(layer, static_cast<int>(r));
        float* row = scores.data() + r * kMaxSlots;
        ScoreKept(indexer, layer, sequences[r], kept, row);
        const auto top = TopSlots(row, kept, sequences[r].position + 1);
        if (layer > 0 || top.empty()) continue;
        std::printf("  row %zu scored %zu of %lld blocks (%s)", r, kept.blocks.size(),
                    static_cast<long long>((sequences[r].position + kBlock) / kBlock),
                    std::string(spin::ReasonName(kept.reason)).c_str());
      }
      step.PutScores(layer, {.data = scores.data(), .row_stride = kMaxSlots});
    }
    step.End();
    if (options.allow_recording) Record(indexer, sequences, &recorder, &recorded);
    std::printf("\n");
    for (Sequence& sequence : sequences) {  // one token each
      if (++sequence.position < kMaxSlots) continue;
      if (sequence.key == recorded) recorder.Stop();
      const std::string key = "request-" + std::to_string(step_number);
      sequence = {key, session.OpenRequest(key, 4000), 3999};  // it was as long as can be
    }
    if (steps != 0) continue;
    std::fflush(stdout);
    absl::SleepFor(kPause);
  }

  const spin::SessionStats stats = session.stats();
  std::printf(
      "%llu steps; rows with a prediction: %llu, cold: %llu\n",
      static_cast<unsigned long long>(stats.steps),
      static_cast<unsigned long long>(stats.rows_by_reason[static_cast<int>(spin::Reason::kNone)]),
      static_cast<unsigned long long>(stats.rows_by_reason[static_cast<int>(spin::Reason::kCold)]));
  return 0;
}
