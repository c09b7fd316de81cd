// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "trace/trace.h"

#include <unistd.h>

#include <bit>
#include <cstddef>
#include <cstring>
#include <limits>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "trace/safetensors.h"
#include "trace/safetensors_entry.h"
#include "trace/trace_metadata.h"

namespace spin::trace {
namespace {

static_assert(std::endian::native == std::endian::little, "tensors are copied as they are");

template <typename... Parts>
absl::Status Invalid(const SafetensorsFile& file, const Parts&... parts) {
  return absl::InvalidArgumentError(absl::StrCat(file.path(), ": ", parts...));
}

bool PositiveInts(const std::vector<int64_t>& shape) {
  for (const int64_t extent : shape) {
    if (extent < 1 || extent > std::numeric_limits<int>::max()) return false;
  }
  return true;
}

// What the format says of one tensor.
struct Expected {
  const char* name;
  const char* dtype;
  size_t rank;
  absl::string_view meaning;  // of the dimensions, for messages
};

enum { kK, kKScale, kQ, kW, kCount };

constexpr double kMemoryPerByte = 3;  // of the file: a copy, and the keys decoded by the scorer

constexpr Expected kExpected[kCount] = {{"k", "F8_E4M3", 3, "[layers, slots, dim]"},
                                        {"k_scale", "F32", 2, "[layers, slots]"},
                                        {"q", "F8_E4M3", 4, "[layers, steps, heads, dim]"},
                                        {"w", "F32", 3, "[layers, steps, heads]"}};

absl::Status FindTensor(const SafetensorsFile& file, const Expected& expected,
                        const Tensor** tensor) {
  *tensor = file.Find(expected.name);
  const std::string field = absl::StrCat("tensor \"", expected.name, "\"");
  if (*tensor == nullptr) {
    return Invalid(file, field, " is missing; a trace has k, k_scale, q and w");
  }
  const std::vector<int64_t>& shape = (*tensor)->shape;
  if (shape.size() != expected.rank || !PositiveInts(shape)) {
    return Invalid(file, field, ": shape ", ListText(shape), ", expected ", expected.meaning,
                   ", each at least 1");
  }
  return absl::OkStatus();
}

// Takes the extents from k and q and holds all four tensors to them.
absl::Status ReadExtents(const SafetensorsFile& file, const Tensor* const tensors[kCount],
                         Trace* trace) {
  const std::vector<int64_t>& k = tensors[kK]->shape;
  const std::vector<int64_t>& q = tensors[kQ]->shape;
  const std::vector<int64_t> shapes[kCount] = {
      k, {k[0], k[1]}, {k[0], q[1], q[2], k[2]}, {k[0], q[1], q[2]}};
  for (int i = 0; i < kCount; ++i) {
    if (tensors[i]->shape == shapes[i]) continue;
    return Invalid(file, "tensor \"", kExpected[i].name, "\": shape ", ListText(tensors[i]->shape),
                   ", expected ", ListText(shapes[i]), " to match the other tensors");
  }
  trace->layers = static_cast<int>(k[0]);
  trace->slots = static_cast<int>(k[1]);
  trace->dim = static_cast<int>(k[2]);
  trace->steps = static_cast<int>(q[1]);
  trace->heads = static_cast<int>(q[2]);
  return absl::OkStatus();
}

// A file may be larger than it looks on the disk, where nothing is written in it.
absl::Status CheckMemory(const SafetensorsFile& file, const Tensor* const tensors[kCount]) {
  const double machine =
      static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGESIZE));
  double needed = 0;
  int largest = 0;
  for (int i = 0; i < kCount; ++i) {
    needed += kMemoryPerByte * static_cast<double>(tensors[i]->bytes.size());
    if (tensors[i]->bytes.size() > tensors[largest]->bytes.size()) largest = i;
  }
  if (needed <= machine) return absl::OkStatus();
  return Invalid(file, "tensor \"", kExpected[largest].name, "\": shape ",
                 ListText(tensors[largest]->shape),
                 absl::StrFormat(" makes the trace take about %.0f GB of memory, of %.0f GB that "
                                 "this machine has",
                                 needed / 1e9, machine / 1e9));
}

std::vector<uint8_t> Bytes(const Tensor& tensor) {
  return {tensor.bytes.begin(), tensor.bytes.end()};
}

// A tensor may lie at any byte of the file.
std::vector<float> Floats(const Tensor& tensor) {
  std::vector<float> values(tensor.bytes.size() / sizeof(float));
  std::memcpy(values.data(), tensor.bytes.data(), tensor.bytes.size());
  return values;
}

absl::Status ReadTensors(const SafetensorsFile& file, Trace* trace) {
  const Tensor* tensors[kCount];
  for (int i = 0; i < kCount; ++i) {
    if (absl::Status status = FindTensor(file, kExpected[i], &tensors[i]); !status.ok()) {
      return status;
    }
  }
  if (absl::Status status = ReadExtents(file, tensors, trace); !status.ok()) return status;
  if (absl::Status status = CheckMemory(file, tensors); !status.ok()) return status;
  trace->k = Bytes(*tensors[kK]);
  trace->k_scale = Floats(*tensors[kKScale]);
  trace->q = Bytes(*tensors[kQ]);
  trace->w = Floats(*tensors[kW]);
  return absl::OkStatus();
}

absl::Status ReadMetadata(const SafetensorsFile& file, Trace* trace) {
  absl::StatusOr<TraceMetadata> metadata = ReadTraceMetadata(file);
  if (!metadata.ok()) return metadata.status();
  const size_t numbers = metadata->layer_numbers.size();
  if (metadata->steps != trace->steps) {
    return Invalid(file, "metadata \"steps\": ", metadata->steps, ", but q has ", trace->steps);
  }
  if (numbers != static_cast<size_t>(trace->layers)) {
    return Invalid(file, "metadata \"layers\": ", numbers, " numbers, but k has ", trace->layers,
                   " layers");
  }
  if (int64_t{metadata->first_query} + trace->steps > trace->slots) {
    return Invalid(file, "metadata \"first_query\": ", metadata->first_query, ", but ",
                   trace->steps, " steps from there end after the ", trace->slots, " slots of k");
  }
  trace->first_query = metadata->first_query;
  trace->layer_numbers = std::move(metadata->layer_numbers);
  return absl::OkStatus();
}

}  // namespace

void Trace::KeepSteps(int count) {
  const size_t row = static_cast<size_t>(heads) * dim;
  std::vector<uint8_t> kept_q;
  std::vector<float> kept_w;
  for (int layer = 0; layer < layers; ++layer) {
    const size_t first = static_cast<size_t>(layer) * steps;
    kept_q.insert(kept_q.end(), q.begin() + first * row, q.begin() + (first + count) * row);
    kept_w.insert(kept_w.end(), w.begin() + first * heads, w.begin() + (first + count) * heads);
  }
  q = std::move(kept_q);
  w = std::move(kept_w);
  steps = count;
}

absl::StatusOr<Trace> LoadTrace(const std::string& path) {
  ExpectedDtypes dtypes;
  for (const Expected& tensor : kExpected) dtypes[tensor.name] = tensor.dtype;
  const absl::StatusOr<SafetensorsFile> file = SafetensorsFile::Open(path, dtypes);
  if (!file.ok()) return file.status();
  Trace trace;
  absl::Status status = ReadTensors(*file, &trace);
  if (status.ok()) status = ReadMetadata(*file, &trace);
  if (!status.ok()) return status;
  return trace;
}

}  // namespace spin::trace
