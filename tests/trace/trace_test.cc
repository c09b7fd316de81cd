// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "trace/trace.h"

#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>
#include <limits>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/trace/test_files.h"

namespace spin::trace {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

// A right trace of 2 layers, 5 slots, 2 steps, 3 heads and dimension 4, all zeros.
constexpr char kHeader[] = R"({
  "__metadata__": {"format": "spin-trace/1", "first_query": "3", "steps": "2", "layers": "[4, 12]"},
  "k": {"dtype": "F8_E4M3", "shape": [2, 5, 4], "data_offsets": [0, 40]},
  "k_scale": {"dtype": "F32", "shape": [2, 5], "data_offsets": [40, 80]},
  "q": {"dtype": "F8_E4M3", "shape": [2, 2, 3, 4], "data_offsets": [80, 128]},
  "w": {"dtype": "F32", "shape": [2, 2, 3], "data_offsets": [128, 176]}})";
constexpr size_t kDataBytes = 176;

absl::StatusOr<Trace> Load(const std::string& header, const std::string& data) {
  const TestFile file(Container(header, data));
  return LoadTrace(file.path());
}

// The trace with `from` replaced is refused, with the path and then `message`.
void ExpectRefused(const std::string& from, const std::string& to, const std::string& message) {
  ASSERT_THAT(kHeader, HasSubstr(from));
  const TestFile file(
      Container(absl::StrReplaceAll(kHeader, {{from, to}}), std::string(kDataBytes, '\0')));
  const absl::Status status = LoadTrace(file.path()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  EXPECT_THAT(std::string(status.message()), StartsWith(file.path() + ": "));
  EXPECT_THAT(std::string(status.message()), HasSubstr(message));
}

TEST(LoadTraceTest, ReadsExtentsFromTheShapes) {
  const auto trace = Load(kHeader, std::string(kDataBytes, '\0'));
  ASSERT_TRUE(trace.ok()) << trace.status();
  EXPECT_EQ(trace->layers, 2);
  EXPECT_EQ(trace->slots, 5);
  EXPECT_EQ(trace->steps, 2);
  EXPECT_EQ(trace->heads, 3);
  EXPECT_EQ(trace->dim, 4);
  EXPECT_EQ(trace->first_query, 3);
  EXPECT_EQ(trace->Query(1), 4);
  EXPECT_EQ(trace->Context(1), 5);
  EXPECT_THAT(trace->layer_numbers, ElementsAre(4, 12));
}

TEST(LoadTraceTest, CopiesTheTensors) {
  std::string data(kDataBytes, '\0');
  const float scale = 0.25f, weight = -3.0f;
  data[39] = 'k';
  std::memcpy(&data[76], &scale, sizeof(scale));
  data[80] = 'q';
  std::memcpy(&data[128], &weight, sizeof(weight));
  const auto trace = Load(kHeader, data);
  ASSERT_TRUE(trace.ok()) << trace.status();
  EXPECT_EQ(trace->k.size(), 40u);
  EXPECT_EQ(trace->k.back(), 'k');
  EXPECT_EQ(trace->k_scale.back(), scale);
  EXPECT_EQ(trace->q.front(), 'q');
  EXPECT_EQ(trace->w.front(), weight);
}

TEST(LoadTraceTest, TensorsMayLieAtOddBytes) {
  const auto trace = Load(std::string(kHeader) + " ", std::string(kDataBytes, '\0'));
  EXPECT_TRUE(trace.ok()) << trace.status();
}

TEST(LoadTraceTest, LoadsNanCodesAndScales) {
  const auto trace = Load(kHeader, std::string(kDataBytes, '\xff'));
  ASSERT_TRUE(trace.ok()) << trace.status();
  EXPECT_EQ(trace->k[0], 0xff);
  EXPECT_TRUE(std::isnan(trace->k_scale[0]));
}

TEST(LoadTraceTest, AMissingFileIsNotFound) {
  EXPECT_EQ(LoadTrace("/nonexistent/trace.safetensors").status().code(),
            absl::StatusCode::kNotFound);
}

TEST(LoadTraceTest, RefusesAMissingTensor) {
  ExpectRefused("\"k_scale\"", "\"scale\"", "tensor \"k_scale\" is missing; a trace has k, k_sc");
}

TEST(LoadTraceTest, RefusesAnotherDtype) {
  ExpectRefused("\"F8_E4M3\", \"shape\": [2, 5, 4]", "\"F16\", \"shape\": [2, 5, 2]",
                "tensor \"k\": dtype \"F16\", expected F8_E4M3");
  // Also where the size is then wrong, or nobody knows the dtype.
  ExpectRefused("\"F8_E4M3\"", "\"F16\"", "tensor \"k\": dtype \"F16\", expected F8_E4M3");
  ExpectRefused("\"F32\"", "\"F7\"", "tensor \"k_scale\": dtype \"F7\", expected F32");
}

TEST(LoadTraceTest, RefusesAnotherRank) {
  ExpectRefused("[2, 2, 3]", "[2, 6]", "\"w\": shape [2, 6], expected [layers, steps, heads]");
}

TEST(LoadTraceTest, RefusesAnEmptyExtent) {
  ExpectRefused("[2, 5, 4], \"data_offsets\": [0, 40]", "[2, 5, 0], \"data_offsets\": [0, 0]",
                "\"k\": shape [2, 5, 0], expected [layers, slots, dim], each at least 1");
}

TEST(LoadTraceTest, RefusesAnExtentThatIsNoInt) {
  ExpectRefused("[2, 5, 4], \"data_offsets\": [0, 40]",
                "[0, 4294967296, 4], \"data_offsets\": [0, 0]", "expected [layers, slots, dim]");
}

TEST(LoadTraceTest, RefusesShapesThatDisagree) {
  ExpectRefused("\"shape\": [2, 5], ", "\"shape\": [5, 2], ",
                "\"k_scale\": shape [5, 2], expected [2, 5] to match the other tensors");
  ExpectRefused("[2, 2, 3, 4]", "[2, 2, 4, 3]", "\"q\": shape [2, 2, 4, 3], expected [2, 2, 4, 4]");
  ExpectRefused("[2, 2, 3]", "[3, 2, 2]", "\"w\": shape [3, 2, 2], expected [2, 2, 3]");
}

TEST(LoadTraceTest, RefusesAQueryPastTheSlots) {
  ExpectRefused("\"first_query\": \"3\"", "\"first_query\": \"4\"",
                "\"first_query\": 4, but 2 steps from there end after the 5 slots of k");
  ExpectRefused("\"first_query\": \"3\"", "\"first_query\": \"2147483647\"", "end after");
}

TEST(LoadTraceTest, RefusesNumbersThatAreNone) {
  for (const char* text : {"-1", "three", "", "3.0", "99999999999"}) {
    ExpectRefused("\"first_query\": \"3\"", absl::StrCat("\"first_query\": \"", text, "\""),
                  absl::StrCat("metadata \"first_query\": \"", text, "\", expected a non-neg"));
  }
  ExpectRefused("\"first_query\"", "\"first\"", "metadata \"first_query\" is missing");
}

TEST(LoadTraceTest, RefusesAnotherNumberOfSteps) {
  ExpectRefused("\"steps\": \"2\"", "\"steps\": \"3\"", "metadata \"steps\": 3, but q has 2");
}

TEST(LoadTraceTest, RefusesLayersThatAreNoAscendingList) {
  for (const char* text : {"", "4, 12", "[]", "[4, x]", "[12, 4]", "[4, 4]", "[-4, 12]", "[4, ]"}) {
    ExpectRefused("[4, 12]", text, absl::StrCat("metadata \"layers\": \"", text, "\", expected"));
  }
  ExpectRefused("\"layers\"", "\"layer\"", "metadata \"layers\" is missing");
}

TEST(LoadTraceTest, RefusesAnotherNumberOfLayers) {
  ExpectRefused("[4, 12]", "[4]", "metadata \"layers\": 1 numbers, but k has 2 layers");
}

TEST(LoadTraceTest, RefusesAnotherFormat) {
  ExpectRefused("spin-trace/1", "spin-trace/2", "metadata \"format\": \"spin-trace/2\", expected");
}

TEST(LoadTraceTest, TheFormatMayBeUnsaid) {
  const auto trace = Load(absl::StrReplaceAll(kHeader, {{"\"format\"", "\"form\""}}),
                          std::string(kDataBytes, '\0'));
  EXPECT_TRUE(trace.ok()) << trace.status();
}

TEST(SmallTraceTest, IsARightTrace) {
  const auto trace = LoadTrace(SPIN_SMALL_TRACE);
  ASSERT_TRUE(trace.ok()) << trace.status();
  EXPECT_EQ(trace->slots, 8192);
  EXPECT_EQ(trace->steps, 128);
  EXPECT_EQ(trace->heads, 8);
  EXPECT_EQ(trace->dim, 64);
  EXPECT_EQ(trace->first_query, 8064);
  EXPECT_THAT(trace->layer_numbers, ElementsAre(4, 12, 20, 28));
}

TEST(SmallTraceTest, IsRefusedWhenTruncated) {
  std::ifstream stream(SPIN_SMALL_TRACE, std::ios::binary);
  const std::string whole{std::istreambuf_iterator<char>(stream), {}};
  for (const size_t size : {whole.size() - 1, whole.size() / 2, size_t{100}}) {
    const TestFile file(whole.substr(0, size));
    const absl::Status status = LoadTrace(file.path()).status();
    EXPECT_THAT(std::string(status.message()), HasSubstr("truncated")) << size;
  }
}

}  // namespace
}  // namespace spin::trace
