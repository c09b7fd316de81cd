#!/usr/bin/env bash
# SPDX-FileCopyrightText: The Spin Authors
# SPDX-License-Identifier: Apache-2.0
#
# Builds the tools that chart and cluster tests stand on, out of the Go module proxy; what is there already is kept.
# Kubernetes takes about ten minutes on two cores, once.
#
# Usage: tests/kube/cluster/tools.sh chart|cluster      into $SPIN_KUBE (~/.cache/spin-kube)
set -euo pipefail
cd "$(dirname "$0")"
OUT=${SPIN_KUBE:-${XDG_CACHE_HOME:-$HOME/.cache}/spin-kube}
KUBERNETES=1.36.3
mkdir -p "$OUT/bin" "$OUT/tools"
export CGO_ENABLED=0 GOFLAGS="${GOFLAGS:-} -buildvcs=false"
command -v go >/dev/null || { echo "tools: install Go first (https://go.dev/dl)" >&2; exit 1; }

# A file's name has the version, so that a new version is built anew; a link has the plain name.
has() { [[ -x $OUT/tools/$1-$2 ]]; }
keep() { ln -sfn "$1-$2" "$OUT/tools/$1"; }

tool() {  # NAME PACKAGE VERSION [LDFLAGS]
  if ! has "$1" "$3"; then
    echo "tools: building $1 $3"
    GOBIN=$OUT/tools/.new go install -trimpath -ldflags "-s -w ${4:-}" "$2@$3"
    mv "$OUT/tools/.new/$(basename "$2")" "$OUT/tools/$1-$3"
  fi
  keep "$1" "$3"
}

# It has a replace directive, which go install refuses.
unittest() {  # VERSION
  if ! has helm-unittest "$1"; then
    echo "tools: building helm-unittest $1"
    local work
    work=$(mktemp -d)
    (cd "$work" && go mod init unittest && go mod edit -require "github.com/helm-unittest/helm-unittest@$1" \
      -replace github.com/vmware-labs/yaml-jsonpath=github.com/helm-unittest/yaml-jsonpath@v0.4.0 \
      -tool github.com/helm-unittest/helm-unittest/cmd/helm-unittest && go mod tidy &&
      go build -trimpath -ldflags "-s -w" -o "$OUT/tools/helm-unittest-$1" github.com/helm-unittest/helm-unittest/cmd/helm-unittest) 2>/dev/null
    rm -rf "$work"
  fi
  keep helm-unittest "$1"
}

chart_tools() {
  local h3=helm.sh/helm/v3
  tool helm4 helm.sh/helm/v4/cmd/helm v4.3.2 "-X helm.sh/helm/v4/internal/version.version=v4.3.2"
  # Without these a Helm 3 that Go installed believes in Kubernetes 1.20.
  tool helm3 $h3/cmd/helm v3.22.0 "-X $h3/internal/version.version=v3.22.0 -X $h3/pkg/chartutil.k8sVersionMajor=1 -X $h3/pkg/chartutil.k8sVersionMinor=36"
  tool kubeconform github.com/yannh/kubeconform/cmd/kubeconform v0.8.0
  tool helm-docs github.com/norwoodj/helm-docs/cmd/helm-docs v1.14.2
  unittest v1.1.2
  kubernetes kubectl
}

kubernetes() {  # COMMAND
  if [[ ! -x $OUT/bin/$1-$KUBERNETES ]]; then
    echo "tools: building $1 $KUBERNETES"
    local p=k8s.io/component-base/version ld="-s -w" pair major minor
    IFS=. read -r major minor _ <<<"$KUBERNETES"
    for pair in "gitVersion=v$KUBERNETES" "gitMajor=$major" "gitMinor=$minor" gitTreeState=archive; do
      ld+=" -X $p.$pair -X k8s.io/client-go/pkg/version.$pair"
    done
    (cd kube && go build -trimpath -ldflags "$ld" -o "$OUT/bin/$1-$KUBERNETES" "k8s.io/kubernetes/cmd/$1")
  fi
  ln -sfn "$1-$KUBERNETES" "$OUT/bin/$1"
}

cluster_tools() {
  local command
  for command in kube-apiserver kube-scheduler kube-controller-manager kubelet; do kubernetes "$command"; done
  if [[ ! -x $OUT/bin/fakedra || kube/fakedra/main.go -nt $OUT/bin/fakedra ]]; then
    (cd kube && go build -trimpath -ldflags "-s -w" -o "$OUT/bin/fakedra" ./fakedra)
  fi
  # The distribution's finds no pods.
  tool prometheus github.com/prometheus/prometheus/cmd/prometheus v0.316.0
  local name
  for name in containerd containerd-shim-runc-v2 ctr; do
    GOFLAGS="$GOFLAGS -tags=no_btrfs,no_zfs,no_devmapper" tool $name github.com/containerd/containerd/v2/cmd/$name v2.3.7
  done
  [[ -x $OUT/bin/pause ]] || gcc -Os -static -DVERSION=1 -o "$OUT/bin/pause" "$(cd kube && go list -m -f '{{.Dir}}' k8s.io/kubernetes)/build/pause/linux/pause.c"
}

case ${1:-} in
  chart) chart_tools ;;
  cluster) chart_tools; cluster_tools ;;
  *) echo "usage: $0 chart|cluster" >&2; exit 2 ;;
esac
