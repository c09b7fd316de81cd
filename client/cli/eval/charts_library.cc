// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "client/cli/eval/charts_library.h"

// The assembler reads the file, since a megabyte is too much for a string literal.
asm(R"(
  .section .rodata
  .balign 16
spin_charts_library_begin:
  .incbin ")" SPIN_ECHARTS_FILE R"("
spin_charts_library_end:
  .byte 0
  .previous
)");

extern "C" {
[[gnu::visibility("hidden")]] extern const char spin_charts_library_begin[];
[[gnu::visibility("hidden")]] extern const char spin_charts_library_end[];
}

namespace spin::cli {

absl::string_view ChartsLibrary() {
  return {spin_charts_library_begin,
          static_cast<size_t>(spin_charts_library_end - spin_charts_library_begin)};
}

}  // namespace spin::cli
