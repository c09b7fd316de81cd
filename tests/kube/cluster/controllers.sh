#!/usr/bin/env bash
# SPDX-FileCopyrightText: The Spin Authors
# SPDX-License-Identifier: Apache-2.0
#
# kube-controller-manager + kube-scheduler for apiserver.sh. usage: controllers.sh start|stop
set -euo pipefail
KUBE_BIN=${KUBE_BIN:-${XDG_CACHE_HOME:-$HOME/.cache}/spin-kube/bin}
S=${KUBE_STATE:-${XDG_CACHE_HOME:-$HOME/.cache}/spin-kube/state}
PORT=${KUBE_PORT:-16443}
case ${1:-} in
start)
  "$KUBE_BIN/kube-controller-manager" --kubeconfig "$S/kubeconfig" --authentication-kubeconfig "$S/kubeconfig" --authorization-kubeconfig "$S/kubeconfig" \
    --bind-address 127.0.0.1 --secure-port $((PORT + 4)) --cert-dir "$S/kcm" --leader-elect=false \
    --service-account-private-key-file "$S/pki/sa.key" --root-ca-file "$S/pki/ca.crt" --use-service-account-credentials=false >"$S/kcm.log" 2>&1 &
  echo $! >"$S/kcm.pid"
  "$KUBE_BIN/kube-scheduler" --kubeconfig "$S/kubeconfig" --authentication-kubeconfig "$S/kubeconfig" --authorization-kubeconfig "$S/kubeconfig" \
    --bind-address 127.0.0.1 --secure-port $((PORT + 5)) --cert-dir "$S/sched" --leader-elect=false >"$S/sched.log" 2>&1 &
  echo $! >"$S/sched.pid"
  for _ in $(seq 80); do
    "$KUBE_BIN/kubectl" --kubeconfig "$S/kubeconfig" get sa default >/dev/null 2>&1 && exit 0
    sleep 0.25
  done
  exit 1 ;;
stop) for p in sched kcm; do [ -f "$S/$p.pid" ] && kill "$(cat "$S/$p.pid")" 2>/dev/null; rm -f "$S/$p.pid"; done; true ;;
*) echo "usage: $0 start|stop" >&2; exit 2 ;;
esac
