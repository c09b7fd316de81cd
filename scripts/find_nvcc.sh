#!/usr/bin/env bash
# SPDX-FileCopyrightText: The Spin Authors
# SPDX-License-Identifier: Apache-2.0
#
# Prints the path of the first nvcc of CUDA 13 or later: $CUDACXX, PATH, /usr/local/cuda, .deps/cuda.
# Prints nothing, and succeeds, if there is none.
set -euo pipefail
cd "$(dirname "$0")/.."

for nvcc in "${CUDACXX:-}" "$(command -v nvcc || true)" /usr/local/cuda/bin/nvcc "$PWD/.deps/cuda/bin/nvcc"; do
  [[ -x $nvcc ]] || continue
  major=$("$nvcc" --version 2>/dev/null | sed -n 's/.*release \([0-9]*\)\..*/\1/p')
  if ((${major:-0} >= 13)); then
    echo "$nvcc"
    exit
  fi
done
