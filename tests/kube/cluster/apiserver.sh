#!/usr/bin/env bash
# SPDX-FileCopyrightText: The Spin Authors
# SPDX-License-Identifier: Apache-2.0
#
# A throw-away Kubernetes API: etcd + kube-apiserver on loopback, no kubelet, no controller manager.
# usage: apiserver.sh start|stop|wait    env: KUBE_BIN (kube-apiserver, kubectl), KUBE_STATE (empty folder), KUBE_PORT, ETCD (binary)
set -euo pipefail
KUBE_BIN=${KUBE_BIN:-${XDG_CACHE_HOME:-$HOME/.cache}/spin-kube/bin}
S=${KUBE_STATE:-${XDG_CACHE_HOME:-$HOME/.cache}/spin-kube/state}
PORT=${KUBE_PORT:-16443}
EP=$((PORT + 1)) PP=$((PORT + 2))
ETCD=${ETCD:-etcd}
read -r -a more <<<"${KUBE_APISERVER_ARGS:-}"

start() {
  mkdir -p "$S/pki" "$S/etcd"; chmod 700 "$S" "$S/etcd"
  cd "$S/pki"
  if [ ! -f admin.token ]; then
    openssl ecparam -name prime256v1 -genkey -noout -out ca.key
    openssl req -x509 -new -key ca.key -subj /CN=test-ca -days 30 -out ca.crt
    openssl ecparam -name prime256v1 -genkey -noout -out apiserver.key
    openssl req -new -key apiserver.key -subj /CN=kube-apiserver -out apiserver.csr
    openssl x509 -req -in apiserver.csr -CA ca.crt -CAkey ca.key -CAcreateserial -days 30 -out apiserver.crt \
      -extfile <(printf 'subjectAltName=DNS:kubernetes,DNS:kubernetes.default.svc,DNS:localhost,IP:127.0.0.1,IP:10.0.0.1\nextendedKeyUsage=serverAuth') 2>/dev/null
    openssl ecparam -name prime256v1 -genkey -noout -out kubelet-client.key
    openssl req -new -key kubelet-client.key -subj /O=system:masters/CN=kube-apiserver-kubelet-client -out kubelet-client.csr
    openssl x509 -req -in kubelet-client.csr -CA ca.crt -CAkey ca.key -CAcreateserial -days 30 -out kubelet-client.crt \
      -extfile <(printf 'extendedKeyUsage=clientAuth') 2>/dev/null
    openssl genrsa -out sa.key 2048 2>/dev/null
    openssl rand -hex 24 >admin.token
    printf '%s,admin,1,"system:masters"\n' "$(cat admin.token)" >tokens.csv
    chmod 600 ./*.key ./*.csv ./*.token
  fi
  cat >"$S/kubeconfig" <<KC
apiVersion: v1
kind: Config
clusters: [{name: t, cluster: {server: "https://127.0.0.1:$PORT", certificate-authority: "$S/pki/ca.crt"}}]
users: [{name: admin, user: {token: "$(cat admin.token)"}}]
contexts: [{name: t, context: {cluster: t, user: admin, namespace: default}}]
current-context: t
KC
  chmod 600 "$S/kubeconfig"
  "$ETCD" --data-dir "$S/etcd" --unsafe-no-fsync --listen-client-urls "http://127.0.0.1:$EP" --advertise-client-urls "http://127.0.0.1:$EP" \
    --listen-peer-urls "http://127.0.0.1:$PP" --initial-advertise-peer-urls "http://127.0.0.1:$PP" --initial-cluster "default=http://127.0.0.1:$PP" \
    >"$S/etcd.log" 2>&1 &
  echo $! >"$S/etcd.pid"
  # ServiceAccount admission is off: no controller manager creates the "default" account.
  "$KUBE_BIN/kube-apiserver" \
    --etcd-servers="http://127.0.0.1:$EP" \
    --bind-address=127.0.0.1 --advertise-address=10.99.0.1 --secure-port="$PORT" --service-cluster-ip-range=10.0.0.0/24 \
    --endpoint-reconciler-type=none \
    --tls-cert-file=apiserver.crt --tls-private-key-file=apiserver.key --client-ca-file=ca.crt \
    --service-account-issuer=https://kubernetes.default.svc --service-account-key-file=sa.key --service-account-signing-key-file=sa.key \
    --kubelet-client-certificate=kubelet-client.crt --kubelet-client-key=kubelet-client.key --kubelet-preferred-address-types=InternalIP \
    --token-auth-file=tokens.csv --authorization-mode=Node,RBAC --anonymous-auth=false \
    --disable-admission-plugins=ServiceAccount \
    --allow-privileged=true --profiling=false "${more[@]}" \
    >"$S/apiserver.log" 2>&1 &
  echo $! >"$S/apiserver.pid"
  wait_ready
}
wait_ready() {
  for _ in $(seq 240); do
    if "$KUBE_BIN/kubectl" --kubeconfig "$S/kubeconfig" get --raw /readyz >/dev/null 2>&1; then return 0; fi
    kill -0 "$(cat "$S/apiserver.pid")" 2>/dev/null || { tail -20 "$S/apiserver.log" >&2; return 1; }
    sleep 0.25
  done
  tail -20 "$S/apiserver.log" >&2; return 1
}
stop() {
  for p in apiserver etcd; do
    [ -f "$S/$p.pid" ] || continue
    pid=$(cat "$S/$p.pid"); kill "$pid" 2>/dev/null || true
    for _ in $(seq 80); do kill -0 "$pid" 2>/dev/null || break; sleep 0.1; done
    kill -9 "$pid" 2>/dev/null || true; rm -f "$S/$p.pid"
  done
}
case ${1:-} in start) start ;; stop) stop ;; wait) wait_ready ;; *) echo "usage: $0 start|stop|wait" >&2; exit 2 ;; esac
