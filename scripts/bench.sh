#!/usr/bin/env bash
# SPDX-FileCopyrightText: The Spin Authors
# SPDX-License-Identifier: Apache-2.0
#
# Runs every benchmark that was built (build/bin/*_bench), one after another.
#
# Usage: scripts/bench.sh
set -euo pipefail
cd "$(dirname "$0")/.."

shopt -s nullglob
benches=(build/bin/*_bench)
((${#benches[@]})) || { echo "bench: no benchmark in build/bin" >&2; exit 1; }
for bench in "${benches[@]}"; do
  echo "== $(basename "$bench")"
  "$bench"
done
