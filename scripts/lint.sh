#!/usr/bin/env bash
# SPDX-FileCopyrightText: The Spin Authors
# SPDX-License-Identifier: Apache-2.0
#
# Checks that need no build. Runs all of the asked ones, and fails if any did.
#
# Usage: scripts/lint.sh all|format|format-fix|proto|shell|layers|licence
set -euo pipefail
cd "$(dirname "$0")/.."

# Files of the checkout, new ones too, that are still there and ours.
files() {  # PATTERN...
  git ls-files -co --exclude-standard -- "$@" ':!third_party' | while read -r file; do
    [[ ! -e $file ]] || echo "$file"
  done
}

check_format() {
  files '*.h' '*.cc' '*.cu' '*.cuh' | xargs .deps/lint/bin/clang-format --dry-run --Werror
}

fix_format() {
  files '*.h' '*.cc' '*.cu' '*.cuh' | xargs .deps/lint/bin/clang-format -i
}

check_proto() {
  .deps/lint/bin/buf lint
}

check_shell() {
  { files '*.sh' .ci/run; } | xargs shellcheck
}

# What the sources of a folder never include: dependencies go one way (CONTRIBUTING.md).
rpc='grpcpp/|google/protobuf/|spin/'
declare -A NEVER_INCLUDES=(
  [policy_file]="(kernels|calibration|dataplane|trace|server|client)/|spin/(?!v1/)"
  [kernels]="$rpc|(calibration|dataplane|trace|server|client)/"
  [calibration]="$rpc|(dataplane|trace|server|client)/"
  [dataplane]="$rpc|(calibration|trace|server|client)/"
  [prediction]="$rpc|(dataplane|policy_file|server|client)/"
  [trace]="$rpc|(prediction|kernels|calibration|dataplane|server|client)/"
  [server]="(trace|client)/|spin/(?!v1/)"
  [client/c]="grpcpp/|google/protobuf/|spin/(?!(kernels|device_structs)\\.h)|(trace|server|client/cpp)/"
  [client/cpp]="(trace|server)/"
  [client/cli]="server/"
)

check_layers() {
  local folder status=0
  for folder in "${!NEVER_INCLUDES[@]}"; do
    if files "$folder/*.h" "$folder/*.cc" "$folder/*.cu" "$folder/*.cuh" |
      xargs grep -nHP "^#include [\"<](${NEVER_INCLUDES[$folder]})" /dev/null; then
      echo "  $folder/ must not include these"
      status=1
    fi
  done
  return $status
}

check_licence() {
  if files '*.h' '*.cc' '*.cu' '*.cuh' '*.proto' '*.py' '*.sh' '*.cmake' '*CMakeLists.txt' Makefile .ci/run |
    xargs grep -L 'SPDX-License-Identifier: Apache-2.0' | grep .; then
    echo "  these lack the SPDX lines"
    return 1
  fi
}

failed=()
run() {  # NAME
  echo "lint: $1"
  "check_$1" || failed+=("$1")
}

case ${1:-} in
  all) for check in format proto shell layers licence; do run "$check"; done ;;
  format | proto | shell | layers | licence) run "$1" ;;
  format-fix) fix_format ;;
  *) sed -n 's/^# Usage: /usage: /p' "$0" >&2; exit 2 ;;
esac
((${#failed[@]} == 0)) || { echo "lint: failed: ${failed[*]}" >&2; exit 1; }
