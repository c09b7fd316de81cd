#!/usr/bin/env bash
# SPDX-FileCopyrightText: The Spin Authors
# SPDX-License-Identifier: Apache-2.0
#
# Makes a Debian 12 base image out of this machine's package sources and certificate authorities, for builds that reach no
# image registry.
#
# Usage: deploy/image/base.sh NAME[:TAG]      needs root, mmdebstrap, buildah
set -euo pipefail

name=${1:?name of the image}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

mapfile -t sources < <(find /etc/apt/sources.list /etc/apt/sources.list.d -name '*.list' -o -name '*.sources' 2>/dev/null)
((${#sources[@]})) || { echo "base: no package sources in /etc/apt" >&2; exit 1; }
hooks=()
if [[ -d /usr/local/share/ca-certificates ]]; then
  # shellcheck disable=SC2016  # mmdebstrap's variable
  hooks=(--customize-hook='copy-in /usr/local/share/ca-certificates /usr/local/share'
    --customize-hook='chroot "$1" update-ca-certificates >/dev/null 2>&1')
fi
mmdebstrap --quiet --variant=minbase --include=ca-certificates bookworm "$work/base.tar" "${sources[@]}" "${hooks[@]}"
container=$(buildah from scratch)
buildah add --quiet "$container" "$work/base.tar" / >/dev/null
buildah commit --quiet --rm "$container" "$name" >/dev/null
