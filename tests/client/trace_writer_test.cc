// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "spin/trace_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/resource.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "tests/server/temp_folder.h"
#include "tests/trace/random_trace.h"
#include "trace/trace.h"

namespace spin {
namespace {

using ::testing::HasSubstr;

class TraceWriterTest : public ::testing::Test {
 protected:
  TraceWriterTest() : trace_(trace::RandomTrace({3, 40, 6, 2, 5}, 9)) {
    trace_.layer_numbers = {2, 5, 11};
    options_.path = folder_.File("t.safetensors");
    options_.layers = trace_.layer_numbers;
    options_.heads = trace_.heads;
    options_.dim = trace_.dim;
    options_.max_slots = trace_.slots;
    options_.max_steps = trace_.steps;
  }

  std::unique_ptr<TraceWriter> Create() {
    auto writer = TraceWriter::Create(options_);
    EXPECT_TRUE(writer.ok()) << writer.status();
    return *std::move(writer);
  }

  absl::Status PutKeys(TraceWriter* writer, int layer, int first, int end) {
    const size_t slot = static_cast<size_t>(layer) * trace_.slots + first;
    return writer->PutKeys(layer, first,
                           {trace_.k.data() + slot * trace_.dim, size_t(end - first) * trace_.dim},
                           {trace_.k_scale.data() + slot, size_t(end - first)});
  }

  absl::Status PutStep(TraceWriter* writer, int layer, int step) {
    const size_t row = (static_cast<size_t>(layer) * trace_.steps + step) * trace_.heads;
    return writer->PutStep(layer, trace_.Query(step),
                           {trace_.q.data() + row * trace_.dim, size_t(trace_.heads) * trace_.dim},
                           {trace_.w.data() + row, size_t(trace_.heads)});
  }

  // As an engine would: the prompt, then step by step.
  void Record(TraceWriter* writer, int steps) {
    for (int layer = 0; layer < trace_.layers; ++layer) {
      ASSERT_TRUE(PutKeys(writer, layer, 0, trace_.first_query).ok());
    }
    for (int step = 0; step < steps; ++step) {
      for (int layer = 0; layer < trace_.layers; ++layer) {
        ASSERT_TRUE(PutKeys(writer, layer, trace_.Query(step), trace_.Query(step) + 1).ok());
        ASSERT_TRUE(PutStep(writer, layer, step).ok());
      }
    }
  }

  int64_t FilesThere() const {
    const std::filesystem::directory_iterator files(folder_.path());
    return std::distance(begin(files), end(files));
  }

  server::TempFolder folder_;
  trace::Trace trace_;
  TraceWriterOptions options_;
};

TEST_F(TraceWriterTest, WhatWasRecordedIsLoaded) {
  const auto writer = Create();
  Record(writer.get(), trace_.steps);
  EXPECT_TRUE(writer->Full());
  ASSERT_TRUE(writer->Finish().ok());
  const auto loaded = trace::LoadTrace(options_.path);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(loaded->first_query, trace_.first_query);
  EXPECT_EQ(loaded->layer_numbers, trace_.layer_numbers);
  EXPECT_EQ(loaded->k, trace_.k);
  EXPECT_EQ(loaded->k_scale, trace_.k_scale);
  EXPECT_EQ(loaded->q, trace_.q);
  EXPECT_EQ(loaded->w, trace_.w);
}

TEST_F(TraceWriterTest, AnEarlyEndKeepsTheStepsThatAreThere) {
  options_.max_steps = 30;
  const auto writer = Create();
  Record(writer.get(), 4);
  EXPECT_FALSE(writer->Full());
  ASSERT_TRUE(PutStep(writer.get(), 0, 4).ok());  // of one layer only: left out
  ASSERT_TRUE(writer->Finish().ok());
  const auto loaded = trace::LoadTrace(options_.path);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(loaded->steps, 4);
  trace_.KeepSteps(4);
  EXPECT_EQ(loaded->q, trace_.q);
}

TEST_F(TraceWriterTest, StepsPastTheBoundAreIgnored) {
  options_.max_steps = 3;
  const auto writer = Create();
  Record(writer.get(), trace_.steps);
  ASSERT_TRUE(writer->Finish().ok());
  EXPECT_EQ(trace::LoadTrace(options_.path)->steps, 3);
}

TEST_F(TraceWriterTest, NothingIsLeftOfAnUnfinishedTrace) {
  Record(Create().get(), 2);
  EXPECT_EQ(FilesThere(), 0);
}

TEST_F(TraceWriterTest, OnlyTheUserCanReadIt) {
  const auto writer = Create();
  Record(writer.get(), 2);
  ASSERT_TRUE(writer->Finish().ok());
  struct stat info;
  ASSERT_EQ(stat(options_.path.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
}

TEST_F(TraceWriterTest, OfTwoWritersTheFirstToFinishHasTheFile) {
  const auto first = Create(), second = Create();
  Record(first.get(), trace_.steps);
  trace_.k.assign(trace_.k.size(), 0);
  Record(second.get(), 3);
  trace_ = trace::RandomTrace({3, 40, 6, 2, 5}, 9);
  ASSERT_TRUE(first->Finish().ok());
  const absl::Status late = second->Finish();
  EXPECT_EQ(late.code(), absl::StatusCode::kAlreadyExists) << late;
  EXPECT_THAT(std::string(late.message()), HasSubstr(options_.path + ": is there already"));
  const auto loaded = trace::LoadTrace(options_.path);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(loaded->k, trace_.k);
  EXPECT_EQ(loaded->q, trace_.q);
}

TEST_F(TraceWriterTest, WhatIsThereIsRefusedAtTheStartAndStays) {
  std::filesystem::create_directory(options_.path);
  EXPECT_THAT(std::string(TraceWriter::Create(options_).status().message()),
              HasSubstr("is a folder"));
  std::filesystem::remove(options_.path);
  std::filesystem::create_symlink("nowhere", options_.path);
  EXPECT_EQ(TraceWriter::Create(options_).status().code(), absl::StatusCode::kAlreadyExists);
  std::filesystem::remove(options_.path);
  std::ofstream(options_.path) << "mine";
  EXPECT_EQ(TraceWriter::Create(options_).status().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(std::filesystem::file_size(options_.path), 4u);
  EXPECT_EQ(FilesThere(), 1);
}

TEST_F(TraceWriterTest, ALimitOfFileSizesIsAnErrorAndNoSignal) {
  const auto writer = Create();
  rlimit before;
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit small = {TraceWriter::kHeaderBytes + 100, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  const absl::Status status = PutKeys(writer.get(), 0, 0, trace_.first_query);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  EXPECT_THAT(std::string(status.message()), HasSubstr("File too large"));
}

TEST_F(TraceWriterTest, SaysWhichKeyIsMissing) {
  const auto writer = Create();
  Record(writer.get(), 2);
  for (int layer = 0; layer < trace_.layers; ++layer) {
    ASSERT_TRUE(PutStep(writer.get(), layer, 2).ok());
  }
  const absl::Status status = writer->Finish();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("layer 2: the key of slot 36 is missing"));
}

TEST_F(TraceWriterTest, RefusesWhatIsOutOfOrderOrOfAnotherSize) {
  const auto writer = Create();
  ASSERT_TRUE(PutStep(writer.get(), 0, 0).ok());
  EXPECT_THAT(std::string(PutStep(writer.get(), 0, 2).message()), HasSubstr("query_slot: 36"));
  EXPECT_THAT(std::string(writer->PutKeys(3, 0, {}, {}).message()), HasSubstr("layer: 3"));
  const float scale = 1;
  const uint8_t codes[5] = {};
  EXPECT_THAT(std::string(writer->PutKeys(0, 40, codes, {&scale, 1}).message()),
              HasSubstr("first_slot: 40"));
  EXPECT_THAT(std::string(writer->PutKeys(0, 0, {codes, 4}, {&scale, 1}).message()),
              HasSubstr("k: 4 codes for 1 slots"));
}

TEST_F(TraceWriterTest, OptionsOutOfBoundsAreRefusedByName) {
  options_.max_bytes = 1000;
  EXPECT_EQ(TraceWriter::Create(options_).status().code(), absl::StatusCode::kResourceExhausted);
  options_.max_bytes = 1 << 20;
  options_.layers = {4, 4};
  EXPECT_THAT(std::string(TraceWriter::Create(options_).status().message()), HasSubstr("layers"));
  options_.layers = {4};
  options_.max_steps = 1;
  EXPECT_THAT(std::string(TraceWriter::Create(options_).status().message()),
              HasSubstr("max_steps: 1 is not in [2, 40]"));
}

}  // namespace
}  // namespace spin
