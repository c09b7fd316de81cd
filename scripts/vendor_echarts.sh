#!/usr/bin/env bash
# SPDX-FileCopyrightText: The Spin Authors
# SPDX-License-Identifier: Apache-2.0
#
# Puts the pinned release of Apache ECharts into third_party/echarts, as it is in the npm package; npm checks the
# package, this script the file. Run it after changing version and checksum.
set -euo pipefail
cd "$(dirname "$0")/.."

version=5.6.0
sha256=bf4a223524e40b77c304bec67e1222cf551f14880cf42c69dc046558e11c07b1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

(cd "$folder" && npm pack --silent "echarts@$version" >/dev/null && tar xzf echarts-*.tgz)
echo "$sha256  $folder/package/dist/echarts.min.js" | sha256sum --check --quiet
cp "$folder"/package/{LICENSE,NOTICE,dist/echarts.min.js} third_party/echarts/
