// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "trace/safetensors.h"

#include <sys/stat.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/trace/test_files.h"

namespace spin::trace {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

// Opening these bytes fails as INVALID_ARGUMENT, with the path and then `message`.
void ExpectRefused(const std::string& contents, const std::string& message) {
  const TestFile file(contents);
  const absl::Status status = SafetensorsFile::Open(file.path()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  EXPECT_THAT(std::string(status.message()), StartsWith(file.path() + ": "));
  EXPECT_THAT(std::string(status.message()), HasSubstr(message));
}

// The same of a file with this header and 16 bytes of data.
void ExpectHeaderRefused(const std::string& header, const std::string& message) {
  ExpectRefused(Container(header, std::string(16, 'x')), message);
}

// The same of a header with one tensor, x.
void ExpectEntryRefused(const std::string& entry, const std::string& message) {
  ExpectHeaderRefused("{\"x\": " + entry + "}", message);
}

TEST(SafetensorsFileTest, GivesTensorsAndMetadata) {
  const TestFile file(Container(R"({"__metadata__": {"a": "b"},
                    "x": {"dtype": "U8", "shape": [2, 2], "data_offsets": [1, 5]},
                    "y": {"dtype": "F32", "shape": [], "data_offsets": [5, 9]}}   )",
                                "-abcd1234"));
  const auto opened = SafetensorsFile::Open(file.path());
  ASSERT_TRUE(opened.ok()) << opened.status();
  EXPECT_EQ(opened->path(), file.path());
  EXPECT_EQ(opened->metadata().at("a"), "b");
  const Tensor* x = opened->Find("x");
  ASSERT_NE(x, nullptr);
  EXPECT_EQ(x->dtype, "U8");
  EXPECT_THAT(x->shape, ElementsAre(2, 2));
  EXPECT_THAT(x->bytes, ElementsAre('a', 'b', 'c', 'd'));
  EXPECT_THAT(opened->Find("y")->shape, IsEmpty());
  EXPECT_EQ(opened->Find("z"), nullptr);
  EXPECT_EQ(opened->Find("__metadata__"), nullptr);
}

TEST(SafetensorsFileTest, TensorsSurviveAMove) {
  const TestFile file(
      Container(R"({"x": {"dtype": "U8", "shape": [3], "data_offsets": [0, 3]}})", "abc"));
  auto opened = SafetensorsFile::Open(file.path());
  ASSERT_TRUE(opened.ok()) << opened.status();
  const SafetensorsFile moved = *std::move(opened);
  EXPECT_THAT(moved.Find("x")->bytes, ElementsAre('a', 'b', 'c'));
}

TEST(SafetensorsFileTest, MayHoldNothing) {
  const TestFile file(Container("{}", ""));
  EXPECT_TRUE(SafetensorsFile::Open(file.path()).ok());
}

TEST(SafetensorsFileTest, MayHoldAnEmptyTensor) {
  const TestFile file(
      Container(R"({"x": {"dtype": "F32", "shape": [0, 4], "data_offsets": [0, 0]}})", ""));
  const auto opened = SafetensorsFile::Open(file.path());
  ASSERT_TRUE(opened.ok()) << opened.status();
  EXPECT_THAT(opened->Find("x")->bytes, IsEmpty());
}

TEST(SafetensorsFileTest, AMissingFileIsNotFound) {
  for (const char* path : {"/nonexistent/x.safetensors", "/dev/null/x", ""}) {
    const absl::Status status = SafetensorsFile::Open(path).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kNotFound) << status;
    EXPECT_EQ(status.message(), std::string(path) + ": no such file");
  }
}

TEST(SafetensorsFileTest, RefusesWhatIsNoRegularFile) {
  const absl::Status directory = SafetensorsFile::Open(testing::TempDir()).status();
  EXPECT_EQ(directory.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(directory.message()), HasSubstr("is a directory"));
  const absl::Status device = SafetensorsFile::Open("/dev/zero").status();
  EXPECT_EQ(device.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(device.message()), HasSubstr("not a regular file"));
}

TEST(SafetensorsFileTest, RefusesAFifoWithoutWaitingForAWriter) {
  const TestFile file("");
  const std::string path = file.path() + ".fifo";
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  const absl::Status status = SafetensorsFile::Open(path).status();
  std::remove(path.c_str());
  EXPECT_THAT(std::string(status.message()), HasSubstr("not a regular file"));
}

TEST(SafetensorsFileTest, RefusesFilesTooShortForALength) {
  ExpectRefused("", "0 bytes hold no header length");
  ExpectRefused("1234567", "7 bytes hold no header length");
  ExpectRefused(LengthBytes(0), "its header is no JSON object");
}

TEST(SafetensorsFileTest, RefusesAHeaderLongerThanTheFile) {
  ExpectRefused(LengthBytes(3) + "{}", "a header of 3 bytes in a file of 10; is it truncated?");
  ExpectRefused(LengthBytes(100'000'000) + "{}", "is it truncated?");
  ExpectRefused(LengthBytes(100'000'001) + "{}", "more than 100000000");
  ExpectRefused(LengthBytes(uint64_t{1} << 63) + "{}", "a header of 9223372036854775808 bytes");
  ExpectRefused(LengthBytes(~uint64_t{0}) + "{}", "a header of 18446744073709551615 bytes");
}

TEST(SafetensorsFileTest, RefusesOtherFormats) {
  const std::string rest(256, '\0');
  ExpectRefused("\x89PNG\r\n\x1a\n" + rest, "not a safetensors file");
  ExpectRefused("PK\x03\x04" + rest, "not a safetensors file");       // a zip of pickles
  ExpectRefused("\x80\x02}q\x01." + rest, "not a safetensors file");  // a pickle
  ExpectRefused("GGUF\x03" + rest, "not a safetensors file");
  ExpectRefused(std::string("version https://git-lfs.github.com/spec/v1\n"),
                "not a safetensors file");  // a file that was never fetched
}

TEST(SafetensorsFileTest, RefusesAHeaderThatIsNoJsonObject) {
  ExpectHeaderRefused("[]", "its header is no JSON object");
  ExpectHeaderRefused("hello", "its header is no JSON object");
  ExpectHeaderRefused("{hello}", "header is not valid JSON at byte 2");
  ExpectHeaderRefused("{\"x\": ", "header is not valid JSON");
  ExpectHeaderRefused("{} {}", "header is not valid JSON");
  ExpectHeaderRefused("{\"\xff\": {}}", "header is not valid JSON");  // not UTF-8
  ExpectHeaderRefused(R"({"x": {"shape": [1e999]}})", "header is not valid JSON");
}

TEST(SafetensorsFileTest, RefusesDeepNestingAtOnce) {
  const std::string deep(1'000'000, '[');
  ExpectHeaderRefused("{\"x\": " + deep, "header: \"x\": expected an object, found an array");
  ExpectEntryRefused("{\"shape\": " + deep, "shape: expected a non-negative integer");
  std::string objects;
  for (int i = 0; i < 100'000; ++i) objects += "{\"x\":";
  ExpectHeaderRefused(objects, "unknown field \"x\"");
}

TEST(SafetensorsFileTest, RefusesWrongTypes) {
  ExpectHeaderRefused(R"({"x": 5})", "header: \"x\": expected an object, found a number");
  ExpectHeaderRefused(R"({"x": null})", "found null");
  ExpectHeaderRefused(R"({"__metadata__": []})", "\"__metadata__\": expected an object");
  ExpectHeaderRefused(R"({"__metadata__": {"a": 5}})",
                      "metadata: \"a\": expected a string, found a number");
  ExpectHeaderRefused(R"({"__metadata__": {"a": {}}})", "found an object");
  ExpectEntryRefused(R"({"dtype": 3})", "tensor \"x\": dtype: expected a string, found a number");
  ExpectEntryRefused(R"({"dtype": ["F32"]})", "dtype: expected a string, found an array");
  ExpectEntryRefused(R"({"shape": "4"})", "shape: expected an array of integers, found a string");
  ExpectEntryRefused(R"({"shape": [true]})", "expected a non-negative integer, found a boolean");
  ExpectEntryRefused(R"({"shape": ["4"]})", "expected a non-negative integer, found a string");
}

TEST(SafetensorsFileTest, RefusesNumbersThatAreNoSizes) {
  ExpectEntryRefused(R"({"shape": [-4]})", "shape: expected a non-negative integer, found -4");
  ExpectEntryRefused(R"({"shape": [4.5]})", "shape: expected a non-negative integer, found 4.5");
  ExpectEntryRefused(R"({"shape": [4.0]})", "shape: expected a non-negative integer");
  ExpectEntryRefused(R"({"data_offsets": [-1, 3]})", "data_offsets: expected a non-negative");
  ExpectEntryRefused(R"({"shape": [9223372036854775808]})", "found 9223372036854775808");
  ExpectEntryRefused(R"({"shape": [99999999999999999999999]})", "found 1e+23");
  ExpectEntryRefused(R"({"shape": [1, 1, 1, 1, 1, 1, 1, 1, 1]})", "shape is too long");
}

TEST(SafetensorsFileTest, RefusesUnknownMissingAndDoubleFields) {
  ExpectEntryRefused(R"({"dtype": "U8", "offset": 3})", "tensor \"x\": unknown field \"offset\"");
  ExpectEntryRefused(R"({"dtype": "U8", "dtype": "U8"})", "\"dtype\" is there twice");
  ExpectEntryRefused(R"({"dtype": "U8", "shape": [1]})", "data_offsets is missing");
  ExpectEntryRefused(R"({})", "dtype is missing");
  const std::string x = R"("x": {"dtype": "U8", "shape": [1], "data_offsets": [0, 1]})";
  ExpectHeaderRefused("{" + x + ", " + x + "}", "header: \"x\" is there twice");
  ExpectHeaderRefused(R"({"__metadata__": {"a": "1", "a": "2"}})",
                      "metadata: \"a\" is there twice");
}

TEST(SafetensorsFileTest, RefusesAnUnknownDtype) {
  ExpectEntryRefused(R"({"dtype": "F7", "shape": [1], "data_offsets": [0, 1]})",
                     "tensor \"x\": unknown dtype \"F7\"");
}

TEST(SafetensorsFileTest, RefusesOffsetsThatDoNotFit) {
  const auto entry = [](const std::string& shape, const std::string& offsets) {
    return R"({"dtype": "F32", "shape": )" + shape + R"(, "data_offsets": )" + offsets + "}";
  };
  ExpectEntryRefused(entry("[5]", "[0, 20]"),
                     "data_offsets [0, 20] end after the file's 16 bytes of data; is the file");
  ExpectEntryRefused(entry("[1]", "[9223372036854775803, 9223372036854775807]"), "end after");
  ExpectEntryRefused(entry("[1]", "[8, 4]"), "data_offsets [8, 4], expected [begin, end]");
  ExpectEntryRefused(entry("[1]", "[4]"), "data_offsets [4], expected [begin, end]");
  ExpectEntryRefused(entry("[1]", "[0, 4, 8]"), "expected [begin, end]");
  ExpectEntryRefused(entry("[3]", "[0, 16]"),
                     "data_offsets [0, 16] do not span the 12 bytes of F32 [3]");
  ExpectEntryRefused(entry("[4294967296, 4294967296]", "[0, 16]"), "is too large");
}

TEST(SafetensorsFileTest, RefusesTensorsThatOverlap) {
  const auto entry = [](const std::string& name, int begin, int end) {
    return "\"" + name + R"(": {"dtype": "U8", "shape": [)" + std::to_string(end - begin) +
           R"(], "data_offsets": [)" + std::to_string(begin) + ", " + std::to_string(end) + "]}";
  };
  ExpectHeaderRefused("{" + entry("x", 4, 9) + ", " + entry("y", 0, 5) + "}",
                      "tensor \"x\": data_offsets [4, 9] overlap those of tensor \"y\", [0, 5]");
  ExpectHeaderRefused("{" + entry("x", 0, 8) + ", " + entry("y", 2, 3) + "}", "overlap");
  ExpectHeaderRefused("{" + entry("x", 2, 4) + ", " + entry("y", 2, 4) + "}", "overlap");
  const TestFile beside(
      Container("{" + entry("x", 4, 8) + ", " + entry("e", 4, 4) + ", " + entry("y", 0, 4) + "}",
                std::string(8, 'x')));
  EXPECT_TRUE(SafetensorsFile::Open(beside.path()).ok());
}

TEST(SafetensorsFileTest, EscapesAndShortensNames) {
  ExpectHeaderRefused(R"({"a\nb": 1})", R"("a\nb")");
  ExpectHeaderRefused("{\"" + std::string(1000, 'n') + "\": 1}",
                      "\"" + std::string(64, 'n') + "...\": expected an object");
}

TEST(SafetensorsFileTest, NoPrefixOfAFileIsTakenForTheFile) {
  const std::string whole =
      Container(R"({"x": {"dtype": "U8", "shape": [9], "data_offsets": [0, 9]}})", "123456789");
  for (size_t size = 0; size < whole.size(); ++size) {
    const TestFile file(whole.substr(0, size));
    EXPECT_EQ(SafetensorsFile::Open(file.path()).status().code(),
              absl::StatusCode::kInvalidArgument)
        << size;
  }
}

}  // namespace
}  // namespace spin::trace
