// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "spin/trace_writer.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "client/cpp/new_file.h"

namespace spin {
namespace {

constexpr int kMaxSlots = 4 << 20;
constexpr int kMaxExtent = 1024;
constexpr int kMaxLayers = 128;
// Fixed, so that keys have their place before all is known.
constexpr int64_t kHeaderBytes = TraceWriter::kHeaderBytes;
constexpr mode_t kMode = 0600;  // keys and queries are data of users

absl::Status OutOfRange(absl::string_view option, int64_t value, int64_t least, int64_t most) {
  return absl::InvalidArgumentError(
      absl::StrCat(option, ": ", value, " is not in [", least, ", ", most, "]"));
}

// Bytes of the four tensors. All products fit: 128 layers of 4 Mi slots of 1 KiB.
struct TensorBytes {
  int64_t k, k_scale, q, w;

  int64_t all() const { return k + k_scale + q + w; }
};

TensorBytes BytesOf(const TraceWriterOptions& o, int64_t steps) {
  const auto layers = static_cast<int64_t>(o.layers.size());
  return {layers * o.max_slots * o.dim, layers * o.max_slots * 4, layers * steps * o.heads * o.dim,
          layers * steps * o.heads * 4};
}

absl::Status Check(const TraceWriterOptions& o) {
  if (o.path.empty()) return absl::InvalidArgumentError("path: is missing");
  if (o.layers.empty() || o.layers.size() > kMaxLayers) {
    return OutOfRange("layers", static_cast<int64_t>(o.layers.size()), 1, kMaxLayers);
  }
  for (size_t i = 0; i < o.layers.size(); ++i) {
    if (o.layers[i] < 0 || (i > 0 && o.layers[i] <= o.layers[i - 1])) {
      return absl::InvalidArgumentError("layers: must be ascending and not negative");
    }
  }
  if (o.heads < 1 || o.heads > kMaxExtent) return OutOfRange("heads", o.heads, 1, kMaxExtent);
  if (o.dim < 1 || o.dim > kMaxExtent) return OutOfRange("dim", o.dim, 1, kMaxExtent);
  if (o.max_slots < 1 || o.max_slots > kMaxSlots) {
    return OutOfRange("max_slots", o.max_slots, 1, kMaxSlots);
  }
  if (o.max_steps < 2 || o.max_steps > o.max_slots) {
    return OutOfRange("max_steps", o.max_steps, 2, o.max_slots);
  }
  const int64_t bytes = kHeaderBytes + BytesOf(o, o.max_steps).all();
  if (bytes > o.max_bytes) {
    return absl::ResourceExhaustedError(absl::StrCat("max_bytes: such a trace may take ", bytes,
                                                     " bytes, more than ", o.max_bytes,
                                                     "; record fewer layers, slots or steps"));
  }
  return absl::OkStatus();
}

class FileTraceWriter : public TraceWriter {
 public:
  FileTraceWriter(const TraceWriterOptions& options, internal::NewFile file)
      : options_(options), file_(std::move(file)), layers_(options.layers.size()) {
    for (Layer& layer : layers_) layer.has_key.resize(options.max_slots);
  }

  absl::Status PutKeys(int layer, int first_slot, absl::Span<const uint8_t> k,
                       absl::Span<const float> k_scale) override;
  absl::Status PutStep(int layer, int query_slot, absl::Span<const uint8_t> q,
                       absl::Span<const float> w) override;
  bool Full() const override;
  absl::Status Finish() override;

 private:
  struct Layer {
    std::vector<bool> has_key;  // [max_slots]
    std::vector<uint8_t> q;     // [steps, heads, dim]
    std::vector<float> w;       // [steps, heads]
    int steps = 0;
  };

  absl::Status CheckLayer(int layer) const;
  absl::Status CheckComplete(int steps) const;
  absl::Status WriteQueries(int steps);
  std::string Header(int steps) const;

  TraceWriterOptions options_;
  internal::NewFile file_;
  std::vector<Layer> layers_;
  int first_query_ = -1;
  bool finished_ = false;
};

absl::Status FileTraceWriter::CheckLayer(int layer) const {
  if (finished_) return absl::FailedPreconditionError("the trace is finished");
  const auto count = static_cast<int>(layers_.size());
  if (layer < 0 || layer >= count) return OutOfRange("layer", layer, 0, count - 1);
  return absl::OkStatus();
}

absl::Status FileTraceWriter::PutKeys(int layer, int first_slot, absl::Span<const uint8_t> k,
                                      absl::Span<const float> k_scale) {
  if (absl::Status status = CheckLayer(layer); !status.ok()) return status;
  const auto slots = static_cast<int64_t>(k_scale.size());
  if (static_cast<int64_t>(k.size()) != slots * options_.dim) {
    return absl::InvalidArgumentError(absl::StrCat("k: ", k.size(), " codes for ", slots,
                                                   " slots of ", options_.dim, " dimensions"));
  }
  if (first_slot < 0 || first_slot + slots > options_.max_slots) {
    return OutOfRange("first_slot", first_slot, 0, options_.max_slots - slots);
  }
  const int64_t slot = int64_t{layer} * options_.max_slots + first_slot;
  absl::Status status =
      file_.WriteAt(kHeaderBytes + slot * options_.dim, k.data(), static_cast<int64_t>(k.size()));
  if (!status.ok()) return status;
  status =
      file_.WriteAt(kHeaderBytes + BytesOf(options_, 0).k + slot * 4, k_scale.data(), slots * 4);
  if (!status.ok()) return status;
  std::fill_n(layers_[layer].has_key.begin() + first_slot, slots, true);
  return absl::OkStatus();
}

absl::Status FileTraceWriter::PutStep(int layer, int query_slot, absl::Span<const uint8_t> q,
                                      absl::Span<const float> w) {
  if (absl::Status status = CheckLayer(layer); !status.ok()) return status;
  const int64_t codes = int64_t{options_.heads} * options_.dim;
  if (static_cast<int64_t>(q.size()) != codes || static_cast<int>(w.size()) != options_.heads) {
    return absl::InvalidArgumentError(absl::StrCat("q, w: ", q.size(), " codes and ", w.size(),
                                                   " weights, expected ", codes, " and ",
                                                   options_.heads));
  }
  Layer& to = layers_[layer];
  if (to.steps == options_.max_steps) return absl::OkStatus();
  if (query_slot < 0) return OutOfRange("query_slot", query_slot, 0, options_.max_slots - 1);
  if (first_query_ < 0) first_query_ = query_slot;
  if (query_slot != first_query_ + to.steps) {
    return absl::InvalidArgumentError(absl::StrCat("query_slot: ", query_slot, ", expected ",
                                                   first_query_ + to.steps, ", the next one"));
  }
  if (query_slot >= options_.max_slots) return absl::OkStatus();
  to.q.insert(to.q.end(), q.begin(), q.end());
  to.w.insert(to.w.end(), w.begin(), w.end());
  ++to.steps;
  return absl::OkStatus();
}

bool FileTraceWriter::Full() const {
  return std::all_of(layers_.begin(), layers_.end(), [&](const Layer& layer) {
    return layer.steps == options_.max_steps || first_query_ + layer.steps == options_.max_slots;
  });
}

absl::Status FileTraceWriter::CheckComplete(int steps) const {
  if (finished_) return absl::FailedPreconditionError("the trace is finished");
  if (steps < 2) {
    return absl::FailedPreconditionError(
        absl::StrCat("steps: ", steps, " of all layers, expected 2 or more"));
  }
  for (size_t layer = 0; layer < layers_.size(); ++layer) {
    const auto begin = layers_[layer].has_key.begin(), end = begin + first_query_ + steps;
    const auto missing = std::find(begin, end, false);
    if (missing == end) continue;
    return absl::FailedPreconditionError(absl::StrCat(
        "layer ", options_.layers[layer], ": the key of slot ", missing - begin, " is missing"));
  }
  return absl::OkStatus();
}

std::string FileTraceWriter::Header(int steps) const {
  const TensorBytes bytes = BytesOf(options_, steps);
  const auto layers = static_cast<int64_t>(layers_.size());
  int64_t offset = 0;
  const auto tensor = [&](const char* name, const char* dtype, const std::vector<int64_t>& shape,
                          int64_t size) {
    const int64_t begin = offset;
    offset += size;
    return absl::StrFormat(R"("%s":{"dtype":"%s","shape":[%s],"data_offsets":[%d,%d]})", name,
                           dtype, absl::StrJoin(shape, ","), begin, offset);
  };
  std::string header = absl::StrFormat(
      R"({"__metadata__":{"format":"spin-trace/1","first_query":"%d","steps":"%d","layers":"[%s]"})",
      first_query_, steps, absl::StrJoin(options_.layers, ", "));
  absl::StrAppend(&header, ",",
                  tensor("k", "F8_E4M3", {layers, options_.max_slots, options_.dim}, bytes.k), ",");
  absl::StrAppend(&header, tensor("k_scale", "F32", {layers, options_.max_slots}, bytes.k_scale),
                  ",");
  absl::StrAppend(
      &header, tensor("q", "F8_E4M3", {layers, steps, options_.heads, options_.dim}, bytes.q), ",");
  absl::StrAppend(&header, tensor("w", "F32", {layers, steps, options_.heads}, bytes.w), "}");
  header.resize(kHeaderBytes - 8, ' ');  // the format allows blanks at the end
  return header;
}

absl::Status FileTraceWriter::WriteQueries(int steps) {
  const TensorBytes bytes = BytesOf(options_, steps);
  const auto layers = static_cast<int64_t>(layers_.size());
  int64_t q_at = kHeaderBytes + bytes.k + bytes.k_scale, w_at = q_at + bytes.q;
  for (const Layer& layer : layers_) {
    absl::Status status = file_.WriteAt(q_at, layer.q.data(), bytes.q / layers);
    status.Update(file_.WriteAt(w_at, layer.w.data(), bytes.w / layers));
    if (!status.ok()) return status;
    q_at += bytes.q / layers;
    w_at += bytes.w / layers;
  }
  return absl::OkStatus();
}

absl::Status FileTraceWriter::Finish() {
  int steps = std::numeric_limits<int>::max();
  for (const Layer& layer : layers_) steps = std::min(steps, layer.steps);
  if (absl::Status status = CheckComplete(steps); !status.ok()) return status;
  const uint64_t header_bytes = kHeaderBytes - 8;  // little-endian machines only, as all of Spin
  const std::string header = Header(steps);
  absl::Status status = file_.WriteAt(0, &header_bytes, sizeof header_bytes);
  status.Update(file_.WriteAt(8, header.data(), static_cast<int64_t>(header.size())));
  status.Update(WriteQueries(steps));
  if (status.ok()) status = file_.PublishIfAbsent();
  finished_ = status.ok();
  return status;
}

}  // namespace

absl::StatusOr<std::unique_ptr<TraceWriter>> TraceWriter::Create(
    const TraceWriterOptions& options) {
  if (absl::Status status = Check(options); !status.ok()) return status;
  if (absl::Status status = internal::CheckAbsent(options.path); !status.ok()) return status;
  absl::StatusOr<internal::NewFile> file = internal::NewFile::Create(options.path, kMode);
  if (!file.ok()) return file.status();
  return std::make_unique<FileTraceWriter>(options, *std::move(file));
}

}  // namespace spin
