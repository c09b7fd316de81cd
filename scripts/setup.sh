#!/usr/bin/env bash
# SPDX-FileCopyrightText: The Spin Authors
# SPDX-License-Identifier: Apache-2.0
#
# Installs what a tier of the build needs and is not there yet. Debian 12; Ubuntu 24.04 has the same
# package names. Everything that is not a distribution package goes under .deps/ in the checkout.
#
# Usage: scripts/setup.sh build|test|lint|tidy|ops|image|kube|browser
#
# Environment:
#   CUDA=auto|on|off|found
#                     auto (default): build without the CUDA device if no toolkit is to be had;
#                     on: that is an error; off: do not look for one; found: do not fetch one
#   PYTHON            the interpreter that virtual environments stand on (default python3)
#   SKIP_PACKAGES=1   do not check distribution packages: you provide them
set -euo pipefail
cd "$(dirname "$0")/.."

BUILD_PACKAGES=(
  ca-certificates ccache cmake g++ git make ninja-build pkg-config
  libabsl-dev libc-ares-dev libgrpc++-dev libprotobuf-dev libre2-dev libssl-dev zlib1g-dev
  protobuf-compiler protobuf-compiler-grpc
  libcivetweb-dev libcurl4-openssl-dev prometheus-cpp-dev
  libcli11-dev librandom123-dev libspdlog-dev libxxhash-dev nlohmann-json3-dev
  libbenchmark-dev libgmock-dev libgtest-dev)
PYTHON_PACKAGES=(python3 python3-venv)
LINT_PACKAGES=(git shellcheck)
TIDY_PACKAGES=(clang-tidy)
IMAGE_PACKAGES=(buildah mmdebstrap)
KUBE_PACKAGES=(containernetworking-plugins etcd-server gcc iproute2 iptables jq libc6-dev openssl podman runc)
BROWSER_PACKAGES=(chromium fonts-inter fonts-noto-core nodejs npm prometheus)

say() { echo "setup: $*"; }
die() { echo "setup: $*" >&2; exit 1; }

# Prints those of the named packages that are not installed.
missing_packages() {
  local installed
  installed=$(dpkg-query -W -f '${Package} ${db:Status-Status}\n' "$@" 2>/dev/null |
    awk '$2 == "installed" {print $1}') || true  # it fails if it knows nothing of a package
  comm -23 <(printf '%s\n' "$@" | sort -u) <(sort -u <<<"$installed")
}

update_package_lists() {
  local attempt
  for attempt in 1 2 3; do
    apt-get -qq update && return
    ((attempt == 3)) || sleep 5
  done
  die "apt-get update failed: is the network there?"
}

install_packages() {  # PACKAGE...
  local missing
  [[ ${SKIP_PACKAGES:-} != 1 ]] || return 0
  command -v dpkg-query >/dev/null ||
    die "this is not Debian or Ubuntu: install the equivalents of [$*], then run again with SKIP_PACKAGES=1"
  mapfile -t missing < <(missing_packages "$@")
  ((${#missing[@]})) || return 0
  if ((EUID != 0)); then
    die "packages are missing; run this line, then try again:
  sudo apt-get update && sudo apt-get install -y --no-install-recommends ${missing[*]}"
  fi
  say "installing ${missing[*]}"
  export DEBIAN_FRONTEND=noninteractive
  update_package_lists
  apt-get -qq -o Acquire::Retries=3 -o DPkg::Lock::Timeout=300 install -y --no-install-recommends \
    "${missing[@]}" >.deps/apt.log 2>&1 ||
    { tail -20 .deps/apt.log >&2; die "apt-get install failed; the whole log is .deps/apt.log"; }
}

# Whether a toolkit is wanted that has to be fetched.
cuda_is_missing() { [[ ${CUDA:-auto} != off && ${CUDA:-auto} != found && -z $(scripts/find_nvcc.sh) ]]; }

# A toolkit from wheels, unless the machine has one. After a failure the network is left alone for an hour.
install_cuda() {
  local toolkit=.deps/cuda log=.deps/cuda.log failed=.deps/cuda.failed
  cuda_is_missing || return 0
  if [[ ${CUDA:-auto} == on || -z $(find "$failed" -mmin -60 2>/dev/null) ]]; then
    say "installing the CUDA toolkit into $toolkit"
    scripts/install_cuda_toolkit.sh "$toolkit" >"$log" 2>&1 && { rm -f "$failed"; return; }
    [[ ${CUDA:-auto} != on ]] ||
      { cat "$log" >&2; die "no CUDA toolkit to be had (CUDA=off builds without the CUDA device)"; }
    touch "$failed"
  fi
  say "no CUDA toolkit to be had ($log): building without the CUDA device (SPIN_CUDA=OFF)"
}

# A virtual environment that holds exactly what a requirements file pins.
install_venv() {  # FOLDER REQUIREMENTS
  local venv=$1 requirements=$2
  cmp -s "$requirements" "$venv/.installed" && "$venv/bin/python" -c '' 2>/dev/null && return
  say "installing $(grep -c == "$requirements") Python packages into $venv"
  rm -rf "$venv"
  "${PYTHON:-python3}" -m venv "$venv" || die "python3 cannot make a virtual environment (package python3-venv)"
  "$venv/bin/python" -m pip install -q --disable-pip-version-check --root-user-action=ignore \
    --only-binary=:all: -r "$requirements" ||
    die "pip could not install $requirements"
  cp "$requirements" "$venv/.installed"
}

# promtool without the Prometheus service: the package is unpacked, not installed. Needs no root.
install_promtool() {
  local folder=.deps/prometheus download="apt-get -qq -o Acquire::Retries=3 download prometheus"
  { command -v promtool || [[ -x .deps/bin/promtool ]]; } >/dev/null && return
  say "fetching promtool"
  rm -rf "$folder"
  mkdir -p "$folder"
  chmod 777 "$folder"  # apt's download user writes here
  (cd "$folder" && $download 2>/dev/null) ||
    { ((EUID != 0)) || update_package_lists; (cd "$folder" && $download); } ||
    die "could not fetch the package prometheus, which has promtool (sudo apt-get update may help)"
  dpkg -x "$folder"/prometheus_*.deb "$folder"
  mkdir -p .deps/bin
  mv "$folder/usr/bin/promtool" .deps/bin/promtool
  rm -rf "$folder"
}

mkdir -p .deps
case ${1:-} in
  build)
    if cuda_is_missing; then BUILD_PACKAGES+=("${PYTHON_PACKAGES[@]}"); fi  # for its wheels
    install_packages "${BUILD_PACKAGES[@]}"
    install_cuda
    ;;
  test)
    install_packages "${BUILD_PACKAGES[@]}" "${PYTHON_PACKAGES[@]}"
    install_cuda
    install_venv .deps/venv tests/e2e/requirements.txt
    install_promtool
    ;;
  lint)
    install_packages "${LINT_PACKAGES[@]}" "${PYTHON_PACKAGES[@]}"
    install_venv .deps/lint scripts/requirements-lint.txt
    ;;
  ops)
    install_packages "${PYTHON_PACKAGES[@]}"
    install_venv .deps/ops tests/requirements-ops.txt
    install_promtool
    ;;
  image)
    install_packages "${IMAGE_PACKAGES[@]}"
    ;;
  kube)
    install_packages "${KUBE_PACKAGES[@]}"
    ;;
  browser)
    # Node may come from elsewhere, and then brings npm itself.
    if command -v npm >/dev/null; then BROWSER_PACKAGES=(chromium fonts-inter fonts-noto-core prometheus); fi
    install_packages "${BROWSER_PACKAGES[@]}"
    ;;
  tidy)
    install_packages "${BUILD_PACKAGES[@]}" "${TIDY_PACKAGES[@]}"
    ;;
  *)
    die "usage: scripts/setup.sh build|test|lint|tidy|ops|image|kube|browser"
    ;;
esac
