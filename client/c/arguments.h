// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "kernels/binding.h"
#include "kernels/block_list.h"
#include "kernels/geometry.h"
#include "kernels/rows.h"
#include "kernels/state.h"
#include "spin/kernels.h"

// From what a C caller gave to what the kernels take: checked, since nobody else does.
namespace spin::c_abi {

absl::Status Bad(absl::string_view field, absl::string_view message);

// The field `reserved` of parameters that have one.
template <typename Params>
auto ReservedOf(const Params& params, int) -> decltype(params.reserved) {
  return params.reserved;
}
template <typename Params>
uint32_t ReservedOf(const Params&, long) {  // a worse match, for those that have none
  return 0;
}

// A copy of the caller's parameters, with the fields that its header did not have as 0.
// `first_size` is the size that the struct had in the first header of this major version.
template <typename Params>
absl::StatusOr<Params> Taken(absl::string_view name, const Params* given, size_t first_size) {
  if (given == nullptr) return Bad(name, "is null");
  const size_t size = given->struct_size;
  if (size < first_size || size > sizeof(Params)) {
    return Bad(absl::StrCat(name, ".struct_size"),
               absl::StrCat(size, " is not in ", first_size, " to ", sizeof(Params),
                            ": set it to the sizeof of the struct; the header may be newer than "
                            "the library"));
  }
  Params out = {};
  std::memcpy(&out, given, size);
  if (ReservedOf(out, 0) != 0) return Bad(absl::StrCat(name, ".reserved"), "is not 0");
  return out;
}

absl::StatusOr<kernels::Geometry> GeometryOf(const spin_geometry& geometry);

absl::StatusOr<kernels::LayerRange> LayersOf(const kernels::Geometry& geometry, int32_t first,
                                             int32_t count);

absl::StatusOr<kernels::ScoreView> ScoresOf(const spin_scores& scores);

// A failure of `what`'s fields.
absl::Status Within(absl::string_view what, const absl::Status& status);

absl::Status CheckPointer(absl::string_view field, const void* pointer);
absl::Status CheckRange(absl::string_view field, int64_t value, int64_t low, int64_t high);

constexpr int64_t kMostRows = 65535;        // of a launch: a dimension of CUDA's grids
constexpr int64_t kMostVerifierRows = 128;  // that kept_slots may have room for

// What a launch needs beside its own parameters.
enum Needs : unsigned { kState = 1, kLists = 2 };

struct Launch {
  kernels::Geometry geometry;
  kernels::LayerRange layers;
  int32_t row_count;
  int32_t max_blocks;
  uint64_t epoch;
  kernels::StateView state;
  kernels::ListTable lists;
  const kernels::Binding* binding;
};

// Pointers of `needs` may be null only if a binding stands in for them.
absl::StatusOr<Launch> LaunchOf(const spin_launch& launch, unsigned needs);

// For one launch of two parameters: whether `compact` names the same rows, layers and lists as
// `select`.
absl::Status CheckSameLaunch(const spin_launch& select, const spin_launch& compact);

}  // namespace spin::c_abi
