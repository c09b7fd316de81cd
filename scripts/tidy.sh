#!/usr/bin/env bash
# SPDX-FileCopyrightText: The Spin Authors
# SPDX-License-Identifier: Apache-2.0
#
# Runs clang-tidy over the project's own C++ sources, as they are compiled in build/.
#
# Usage: scripts/tidy.sh [JOBS]
set -euo pipefail
cd "$(dirname "$0")/.."

mapfile -t sources < <(git ls-files -co --exclude-standard '*.cc' ':!tests/install' | sed "s|^|^$PWD/|; s|$|\$|")
run-clang-tidy -quiet -p build -j "${1:-2}" "${sources[@]}"
