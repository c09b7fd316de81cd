#!/usr/bin/env bash
# SPDX-FileCopyrightText: The Spin Authors
# SPDX-License-Identifier: Apache-2.0
#
# Puts three sources of abseil into third_party/abseil, out of the source package of Debian 12's libabsl-dev. Run it after
# changing version and checksum; client/c/CMakeLists.txt names the version, too.
set -euo pipefail
cd "$(dirname "$0")/.."

version=20220623.1
sha256=abfe2897f3a30edaa74bc34365afe3c2a3cd012091a97dc7e008f7016adcd5fe
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

curl -sSfL -o "$folder/abseil.tar.gz" "https://deb.debian.org/debian/pool/main/a/abseil/abseil_$version.orig.tar.gz"
echo "$sha256  $folder/abseil.tar.gz" | sha256sum --check --quiet
tar -C "$folder" --strip-components=1 -xzf "$folder/abseil.tar.gz"
cp "$folder"/{LICENSE,absl/base/internal/sysinfo.cc,absl/strings/cord.cc,absl/strings/internal/cordz_functions.cc} third_party/abseil/
