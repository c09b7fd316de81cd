// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

// Proves that the installed package compiles, links and runs: asks for a session with a bad option,
// which needs no spind, and expects to be told so.
#include <iostream>

#include "spin/session.h"

int main() {
  spin::SessionOptions options;
  options.model.topk = -1;
  const auto session = spin::Session::Create(options);
  std::cout << session.status() << "\n";
  return absl::IsInvalidArgument(session.status()) ? 0 : 1;
}
