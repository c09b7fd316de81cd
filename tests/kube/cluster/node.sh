#!/usr/bin/env bash
# SPDX-FileCopyrightText: The Spin Authors
# SPDX-License-Identifier: Apache-2.0
#
# containerd + kubelet as one node of the throw-away API. usage: node.sh start|stop     (root)
set -euo pipefail
KUBE_BIN=${KUBE_BIN:-${XDG_CACHE_HOME:-$HOME/.cache}/spin-kube/bin}
S=${KUBE_STATE:-${XDG_CACHE_HOME:-$HOME/.cache}/spin-kube/state}
N=$S/node
SOCK=$N/containerd.sock
CONTAINERD=${CONTAINERD:-containerd}
IMAGES=${IMAGES:-${XDG_CACHE_HOME:-$HOME/.cache}/spin-kube/img}
CTR=${CTR:-ctr}

start() {
  mkdir -p "$N"/{cni,cdi,ctrd,ctrd-state,kubelet}
  # The kubelet changes these; stop puts them back.
  for k in vm.overcommit_memory vm.panic_on_oom kernel.panic kernel.panic_on_oops kernel.keys.root_maxkeys kernel.keys.root_maxbytes; do echo "$k=$(sysctl -n $k)"; done >"$N/sysctl"
  cat >"$N/cni/10-ptp.conf" <<'C'
{"cniVersion": "0.4.0", "name": "test", "type": "ptp", "ipMasq": false, "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.88.7.0/24"}]], "routes": [{"dst": "0.0.0.0/0"}], "dataDir": "/run/k8s-test-cni"}}
C
  # containerd 1.x (Debian 12: 1.6, no CDI) and 2.x name their settings differently.
  case $("$CONTAINERD" --version) in */v2\ *)
    cat >"$N/containerd.toml" <<C
version = 3
root = "$N/ctrd"
state = "$N/ctrd-state"
[grpc]
  address = "$SOCK"
[ttrpc]
  address = "$SOCK.ttrpc"
[plugins."io.containerd.cri.v1.images".pinned_images]
  sandbox = "localhost/pause:1"
[plugins."io.containerd.cri.v1.runtime"]
  enable_cdi = true
  cdi_spec_dirs = ["$N/cdi"]
  enable_unprivileged_ports = true
  disable_apparmor = true
  restrict_oom_score_adj = true
  [plugins."io.containerd.cri.v1.runtime".cni]
    bin_dirs = ["/usr/lib/cni"]
    conf_dir = "$N/cni"
  [plugins."io.containerd.cri.v1.runtime".containerd]
    default_runtime_name = "runc"
    [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
C
    ;;
  *)
  cat >"$N/containerd.toml" <<C
version = 2
root = "$N/ctrd"
state = "$N/ctrd-state"
[grpc]
  address = "$SOCK"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "localhost/pause:1"
  enable_unprivileged_ports = true
  disable_apparmor = true
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "$N/cni"
  [plugins."io.containerd.grpc.v1.cri".containerd]
    default_runtime_name = "runc"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
C
    ;;
  esac
  "$CONTAINERD" --config "$N/containerd.toml" >"$N/containerd.log" 2>&1 &
  echo $! >"$N/containerd.pid"
  for _ in $(seq 80); do "$CTR" -a "$SOCK" version >/dev/null 2>&1 && break; sleep 0.25; done
  for f in "$IMAGES"/*.tar; do "$CTR" -a "$SOCK" -n k8s.io images import "$f" >/dev/null; done
  cat >"$N/kubelet.yaml" <<C
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
containerRuntimeEndpoint: unix://$SOCK
cgroupDriver: cgroupfs
failCgroupV1: false
failSwapOn: false
cgroupsPerQOS: true
enforceNodeAllocatable: [pods]
cgroupRoot: /
authentication: {anonymous: {enabled: false}, webhook: {enabled: false}, x509: {clientCAFile: $S/pki/ca.crt}}
authorization: {mode: AlwaysAllow}
port: 16450
healthzPort: 0
readOnlyPort: 0
address: 0.0.0.0
evictionHard: {memory.available: 100Mi, nodefs.available: "1%", imagefs.available: "1%"}
imageGCHighThresholdPercent: 100
imageGCLowThresholdPercent: 99
syncFrequency: 10s
registerNode: true
makeIPTablesUtilChains: false
resolvConf: ""
podLogsDir: $N/pod-logs
C
  "$KUBE_BIN/kubelet" --config "$N/kubelet.yaml" --kubeconfig "$S/kubeconfig" --root-dir "$N/kubelet" --cert-dir "$N/kubelet/pki" \
    --hostname-override=node1 >"$N/kubelet.log" 2>&1 &
  echo $! >"$N/kubelet.pid"
  for _ in $(seq 120); do
    if "$KUBE_BIN/kubectl" --kubeconfig "$S/kubeconfig" wait --for=condition=Ready node/node1 --timeout=2s >/dev/null 2>&1; then fake_gpus; return 0; fi
    kill -0 "$(cat "$N/kubelet.pid")" 2>/dev/null || break
    sleep 0.5
  done
  tail -15 "$N/kubelet.log" >&2; return 1
}
fake_gpus() {
  [ -x "$KUBE_BIN/fakedra" ] || return 0
  "$KUBE_BIN/fakedra" -kubeconfig "$S/kubeconfig" -node node1 -kubelet-root "$N/kubelet" -cdi-dir "$N/cdi" >"$N/fakedra.log" 2>&1 &
  echo $! >"$N/fakedra.pid"
}
stop() {
  for p in fakedra kubelet containerd; do
    [ -f "$N/$p.pid" ] || continue
    if [ $p = containerd ]; then
      for c in $("$CTR" -a "$SOCK" -n k8s.io tasks ls -q 2>/dev/null); do "$CTR" -a "$SOCK" -n k8s.io tasks kill -s 9 "$c" 2>/dev/null || true; done; sleep 1
      for c in $("$CTR" -a "$SOCK" -n k8s.io containers ls -q 2>/dev/null); do
        "$CTR" -a "$SOCK" -n k8s.io tasks rm -f "$c" >/dev/null 2>&1 || true; "$CTR" -a "$SOCK" -n k8s.io containers rm "$c" >/dev/null 2>&1 || true
      done
    fi
    pid=$(cat "$N/$p.pid"); kill "$pid" 2>/dev/null || true
    for _ in $(seq 80); do kill -0 "$pid" 2>/dev/null || break; sleep 0.1; done
    rm -f "$N/$p.pid"
  done
  # A pod that was just being made may have left one.
  for p in /proc/[0-9]*; do
    if tr '\0' ' ' 2>/dev/null <"$p/cmdline" | grep -q "^[^ ]*containerd-shim[^ ]* .*-address $SOCK "; then kill -9 "${p#/proc/}" || true; fi
  done
  [ -f "$N/sysctl" ] && sysctl -q -p "$N/sysctl"
  for ns in /run/netns/cni-*; do if [ -e "$ns" ]; then ip netns del "$(basename "$ns")" 2>/dev/null || true; fi; done
  rm -rf /run/k8s-test-cni
  find /sys/fs/cgroup -depth -type d -path '*/kubepods*' -exec rmdir {} + 2>/dev/null || true
  awk -v n="$N/" 'index($2, n) == 1 {print $2}' /proc/mounts | sort -r | while read -r m; do umount "$m" || true; done
}
case ${1:-} in start) start ;; stop) stop ;; *) echo "usage: $0 start|stop" >&2; exit 2 ;; esac
