#!/usr/bin/env bash
# SPDX-FileCopyrightText: The Spin Authors
# SPDX-License-Identifier: Apache-2.0
#
# Starts spind with the CPU device, replays the bundled trace through it, shows the results and some of the metrics,
# and stops spind again. Expects build/bin to be built.
#
# Usage: scripts/demo.sh
set -euo pipefail
cd "$(dirname "$0")/.."

TRACE=testdata/traces/small-8k.safetensors
TOPK=128
SPARSITY=0.4
FIRST_PORT=9464
SLAB=32MiB  # a container's /dev/shm may have no more than 64

die() { echo "demo: $*" >&2; exit 1; }

work=$(mktemp -d "${TMPDIR:-/tmp}/spin-demo.XXXXXX")
spind=
stop() {
  trap '' INT TERM
  if [[ -n $spind ]]; then
    kill "$spind" 2>/dev/null || true
    wait "$spind" 2>/dev/null || true
  fi
  rm -rf "$work"
}
trap stop EXIT
trap 'exit 130' INT TERM
unset "${!SPIND_@}"  # settings of another spind are not meant for this one

free_port() {
  local port
  for ((port = FIRST_PORT; port < FIRST_PORT + 50; ++port)); do
    (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null || { echo "$port"; return; }
  done
  die "no free port from $FIRST_PORT on"
}

# The answer of spind's HTTP port; fails unless it is 200.
get() {  # PATH
  local status
  exec 3<>"/dev/tcp/127.0.0.1/$port" || return 1
  printf 'GET %s HTTP/1.0\r\n\r\n' "$1" >&3
  read -r _ status _ <&3 && [[ $status == 200 ]] && cat <&3
  local result=$?
  exec 3>&-
  return $result
}

wait_until_started() {
  local attempt
  for ((attempt = 0; attempt < 200; ++attempt)); do
    get /startupz >/dev/null 2>&1 && return
    kill -0 "$spind" 2>/dev/null || break
    sleep 0.05
  done
  cat "$work/log" >&2
  die "spind did not start"
}

port=$(free_port)
echo "Starting spind with the CPU device: metrics at http://127.0.0.1:$port/metrics while it runs"
# setpriv: it ends with this script, also where that is killed.
setpriv --pdeathsig TERM build/bin/spind --device=cpu --socket="$work/spind.sock" --slab-bytes="$SLAB" \
  --admin-address="127.0.0.1:$port" 2>"$work/log" >&2 &
spind=$!
wait_until_started

echo "Replaying $TRACE: real scores of 4 layers, 8192 slots, 128 decode steps"
# What it says to try next would need this spind, which ends with the demo.
build/bin/spinctl replay --socket "$work/spind.sock" --trace "$TRACE" --topk "$TOPK" --sparsity "$SPARSITY" |
  sed '/^Try next:/,$d'

get /metrics >"$work/metrics" || die "no answer from http://127.0.0.1:$port/metrics"
echo
echo "Some of what /metrics says now, of $(grep -cv '^#' "$work/metrics") series:"
grep -E '^spin_[a-z_]+_total\{model_name' "$work/metrics" | grep -vE ' 0$|layer="[1-9]' | sed 's/^/  /' || true

cat <<EOF

That spind is stopped now. To keep one and look at it, a terminal for each:
  build/bin/spind --device=cpu --socket=/tmp/spind.sock --slab-bytes=$SLAB --admin-address=127.0.0.1:$FIRST_PORT
  build/bin/spinctl replay --socket /tmp/spind.sock --trace $TRACE --topk $TOPK --audit-every 16 --rounds 200
  build/bin/spinctl top --socket /tmp/spind.sock
and http://127.0.0.1:$FIRST_PORT/ in a browser, while the replay runs: about a minute.
EOF
