#!/usr/bin/env bash
# SPDX-FileCopyrightText: The Spin Authors
# SPDX-License-Identifier: Apache-2.0
#
# Generates the Python modules of spin.v1 that the end-to-end tests speak, into build/python.
#
# Usage: scripts/python_stubs.sh
set -euo pipefail
cd "$(dirname "$0")/.."

out=build/python
stamp=$out/.generated
sources=$(cat proto/spin/v1/*.proto tests/e2e/requirements.txt | cksum)
[[ "$(cat "$stamp" 2>/dev/null)" != "$sources" ]] || exit 0
rm -rf "$out"
mkdir -p "$out"
.deps/venv/bin/python -m grpc_tools.protoc -I proto --python_out="$out" --grpc_python_out="$out" proto/spin/v1/*.proto
echo "$sources" >"$stamp"
