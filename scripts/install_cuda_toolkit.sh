#!/usr/bin/env bash
# SPDX-FileCopyrightText: The Spin Authors
# SPDX-License-Identifier: Apache-2.0
#
# Lays out a CUDA 13.0 toolkit from PyPI wheels: compiler, runtime, CCCL, and link stubs for the driver
# libraries. No driver, no profiler; about 270 MB. Does nothing if PREFIX already holds these versions.
#
# Usage: scripts/install_cuda_toolkit.sh PREFIX
set -euo pipefail

WHEELS=(
  nvidia-cuda-nvcc==13.0.88     # nvcc, ptxas, nvlink, fatbinary, cudafe++
  nvidia-nvvm==13.0.88          # cicc, libdevice
  nvidia-cuda-crt==13.0.88      # include/crt
  nvidia-cuda-runtime==13.0.96  # cuda.h, cuda_runtime.h, libcudart
  nvidia-cuda-cccl==13.0.85     # CUB, Thrust, libcu++
  nvidia-nvml-dev==13.0.87      # nvml.h
)
STAMP="layout 1: ${WHEELS[*]}"

die() { echo "cuda toolkit: $*" >&2; exit 1; }

[[ $# == 1 ]] || die "usage: $0 PREFIX"
PREFIX=$(realpath -m "$1")
[[ "$(cat "$PREFIX/.stamp" 2>/dev/null)" != "$STAMP" ]] || exit 0

mkdir -p "$(dirname "$PREFIX")"
WORK=$(mktemp -d "$PREFIX.XXXXXX")  # beside PREFIX: the last step is one rename
trap 'rm -rf "$WORK"' EXIT
ROOT=$WORK/site/nvidia/cu13

fetch_wheels() {
  local python=${PYTHON:-python3}
  if ! "$python" -m pip --version >/dev/null 2>&1; then
    "$python" -m venv "$WORK/venv" || die "$python has neither pip nor venv"
    python=$WORK/venv/bin/python
  fi
  "$python" -m pip install -q --disable-pip-version-check --root-user-action=ignore --no-deps --no-compile --only-binary=:all: \
    --retries 2 --target "$WORK/site" "${WHEELS[@]}" || die "could not fetch the wheels"
}

# The wheels name libraries by version only, and CMake looks in lib64.
add_link_names() {
  local library
  ln -s lib "$ROOT/lib64"
  for library in "$ROOT"/lib/lib*.so.*; do
    ln -s "$(basename "$library")" "${library%%.so.*}.so"
  done
}

# Functions that a header declares, after its own renaming by macros (cuMemAlloc is cuMemAlloc_v2).
declared_functions() {  # HEADER RETURN_TYPES NAME_PATTERN
  local mode
  for mode in SPIN_NO_MODE CUDA_API_PER_THREAD_DEFAULT_STREAM __CUDA_API_VERSION_INTERNAL; do
    gcc -E -P -x c -D"$mode" -I"$ROOT/include" "$ROOT/include/$1" | tr '\n' ' ' |
      grep -oE "\b($2) *$3 *\(" | grep -oE "$3" || true
  done | sort -u
}

# The libraries of the driver come with the driver; linking needs only their names. The stubs carry no
# versioned file name, so that they are never loaded.
make_stub() {  # SONAME HEADER RETURN_TYPES NAME_PATTERN ERROR_CODE
  local source=$WORK/stub.c
  declared_functions "$2" "$3" "$4" | awk -v code="$5" '{print "int " $1 "(void) { return " code "; }"}' >"$source"
  (($(wc -l <"$source") > 100)) || die "$2 declares too few functions for a stub of $1"
  gcc -shared -fPIC -w -fno-builtin -Wl,-soname,"$1" -o "$ROOT/lib/stubs/${1%.1}" "$source"
}

fetch_wheels
add_link_names
mkdir -p "$ROOT/lib/stubs"
make_stub libcuda.so.1 cuda.h 'CUresult' 'cu[A-Z][A-Za-z0-9_]+' 34                          # CUDA_ERROR_STUB_LIBRARY
make_stub libnvidia-ml.so.1 nvml.h 'nvmlReturn_t|const char *\*' 'nvml[A-Z][A-Za-z0-9_]+' 12  # ..._LIBRARY_NOT_FOUND

echo "$STAMP" >"$ROOT/.stamp"
chmod 755 "$ROOT"
rm -rf "$PREFIX"
mv "$ROOT" "$PREFIX"
