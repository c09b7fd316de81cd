#!/usr/bin/env bash
# SPDX-FileCopyrightText: The Spin Authors
# SPDX-License-Identifier: Apache-2.0
#
# Packs what is needed to run spind, spinctl, the GPU tests and the benchmarks on a machine that has a driver
# but none of the libraries: stripped programs, every shared library but glibc's, the sample trace, and `run`
# and `check` to start them with.
#
# Usage: scripts/bundle.sh BUILD_FOLDER OUTPUT.tar.gz
set -euo pipefail
cd "$(dirname "$0")/.."

build=$1
output=$2
programs=(spind spinctl spin_kernels_gpu_test spin_dataplane_gpu_test spin_client_gpu_test gpu_step_bench)
optional=(handoff_bench)
glibc='/(ld-linux[^/]*|libc|libm|libdl|libpthread|librt|libresolv)\.so'

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
root=$work/spin-bundle
mkdir -p "$root"/{bin,lib,testdata}

for program in "${optional[@]}"; do
  [[ ! -x $build/bin/$program ]] || programs+=("$program")
done
for program in "${programs[@]}"; do
  [[ -x $build/bin/$program ]] || { echo "bundle: $build/bin/$program is missing: build it with CUDA" >&2; exit 1; }
  strip -o "$root/bin/$program" "$build/bin/$program"
  ldd "$build/bin/$program" | awk '/=> \//{print $3}'
done | sort -u >"$work/libraries"
find "$build" -name 'libspin_kernels.so.*' -type f | while read -r library; do
  strip --strip-unneeded -o "$root/lib/$(basename "$library")" "$library"
  ln -sf "$(basename "$library")" "$root/lib/libspin_kernels.so"
  ldd "$library" | awk '/=> \//{print $3}' >>"$work/libraries"
done
sort -u "$work/libraries" | while read -r library; do
  [[ $library =~ $glibc ]] || strip --strip-unneeded -o "$root/lib/$(basename "$library")" "$library"
done
cp testdata/traces/small-8k.safetensors "$root/testdata/"
cp bench/{deepgemm,attention,engine_step,gpu_clock}.py client/c/python/spin_kernels.py "$root/"
cp scripts/bundle/run scripts/bundle/check "$root/"

mkdir -p "$(dirname "$output")"
tar -C "$work" --sort=name --owner=0 --group=0 --numeric-owner -czf "$output" spin-bundle
echo "$output: $(du -h "$output" | cut -f1), unpack it anywhere and start spin-bundle/check or spin-bundle/run spinctl --help"
