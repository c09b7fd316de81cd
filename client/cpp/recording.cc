// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "spin/recording.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "dataplane/request_key.h"
#include "kernels/exploration.h"

namespace spin {
namespace {

// Apart from the tags of audits and, since layers stay below 128, of exploration.
constexpr uint32_t kSampleTag = kernels::kAuditTag - 1;

}  // namespace

std::string Recording::PathOf(int request) const {
  if (max_requests <= 1) return path;
  constexpr absl::string_view kEnding = ".safetensors";
  return absl::StrCat(absl::StripSuffix(path, kEnding), "-", request + 1, kEnding);
}

bool Recording::Draws(absl::string_view request_key) const {
  const uint64_t draw =
      kernels::PhiloxDraw(sample_seed, dataplane::HashRequestKey(request_key), 0, kSampleTag)
          .words[0];
  return draw * sample_every < (uint64_t{1} << 32);
}

}  // namespace spin
