#!/usr/bin/env bash
# SPDX-FileCopyrightText: The Spin Authors
# SPDX-License-Identifier: Apache-2.0
#
# Configures the build folder of a CMake preset, unless that is done already with the same settings. Adds to the
# preset what depends on the machine: where CUDA is.
#
# Usage: scripts/configure.sh PRESET FOLDER
set -euo pipefail
cd "$(dirname "$0")/.."

preset=$1
folder=$2
stamp=$folder/.configured
arguments=()
case $preset in
  asan | tsan) ;;  # the preset itself leaves CUDA out
  *)
    nvcc=$([[ ${CUDA:-auto} == off ]] || scripts/find_nvcc.sh)
    if [[ -n $nvcc ]]; then
      arguments=(-DSPIN_CUDA=ON "-DCMAKE_CUDA_COMPILER=$nvcc" "-DCUDAToolkit_ROOT=$(dirname "$(dirname "$nvcc")")")
    else
      arguments=(-DSPIN_CUDA=OFF)
    fi
    ;;
esac

settings="${arguments[*]} $(cksum <CMakePresets.json)"
if [[ ! -f $folder/build.ninja || "$(cat "$stamp" 2>/dev/null)" != "$settings" ]]; then
  cmake --preset "$preset" --fresh "${arguments[@]}"
  echo "$settings" >"$stamp"
fi
