#!/usr/bin/env bash
# SPDX-FileCopyrightText: The Spin Authors
# SPDX-License-Identifier: Apache-2.0
#
# Lays out what the image holds, and nothing else: the programs, the shared libraries they load, the client library
# and libspin_kernels.so, licences, a bill of materials. libcuda is not among it: it comes from the node.
#
# Usage: deploy/image/collect.sh BUILD_FOLDER OUT VERSION [REVISION]     on Debian, where the programs were built
set -euo pipefail

build=$(realpath "${1:?build folder}")
out=$(realpath -m "${2:?target folder}")
version=${3:?version}
revision=${4:-unknown}
programs=(spind spinctl example_engine)

mkdir -p "$out"/{usr/bin,usr/share/doc,usr/share/spin,etc,run/spin,tmp,lib64}
ln -sfn usr/lib "$out/lib"
for program in "${programs[@]}"; do
  strip -o "$out/usr/bin/$program" "$build/bin/$program"
done

# The client library and the C ABI, to be copied into an engine's image: COPY --from=spin /opt/spin /opt/spin
DESTDIR=$out cmake --install "$build" --prefix /opt/spin >/dev/null
rm -rf "$out/opt/spin/bin"
find "$out/opt/spin" -name '*.a' -exec strip --strip-debug {} +
kernels=$(find "$out/opt/spin" -name 'libspin_kernels.so.*' -type f)
strip --strip-unneeded "$kernels"

# Libraries go by the path under which the loader looks for them.
libraries=$(for program in "${programs[@]}"; do ldd "$build/bin/$program"; done | grep -o '/[^ ]*' | sort -u)
for library in $libraries; do
  case $library in
    /lib64/*) install -m 755 "$(realpath "$library")" "$out$library" ;;
    *) install -D -m 644 "$(realpath "$library")" "$out/usr/lib/x86_64-linux-gnu/${library##*/}" ;;
  esac
done

# Whose they are: copyright of each package, and a bill of materials in SPDX.
mapfile -t packages < <(for library in $libraries; do
  dpkg-query -S "$(realpath "$library")" 2>/dev/null || dpkg-query -S "*/${library##*/}"
done | cut -d: -f1 | sort -u)
# Inside libspin_kernels.so: abseil and libstdc++ out of Debian's archives, and the CUDA runtime.
mapfile -t static < <(dpkg-query -W -f '${Package}\n' libabsl-dev "libstdc++-$(gcc -dumpversion)-dev")
cuda=$(sed -n 's/^set(CMAKE_CUDA_COMPILER_VERSION "\(.*\)")/\1/p' "$build"/CMakeFiles/*/CMakeCUDACompiler.cmake 2>/dev/null || true)
for package in "${packages[@]}" "${static[@]}"; do
  install -D -m 644 "/usr/share/doc/$package/copyright" "$out/usr/share/doc/$package/copyright"
done
{
  cat <<JSON
{"spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT", "name": "spin-$version",
 "documentNamespace": "urn:spin:image:$version:$revision",
 "creationInfo": {"created": "$(date -u -d "@${SOURCE_DATE_EPOCH:-0}" +%FT%TZ)", "creators": ["Tool: deploy/image/collect.sh"]},
 "documentDescribes": ["SPDXRef-spin"],
 "packages": [
  {"SPDXID": "SPDXRef-spin", "name": "spin", "versionInfo": "$version", "downloadLocation": "NOASSERTION", "licenseDeclared": "Apache-2.0", "filesAnalyzed": false}
JSON
  # shellcheck disable=SC2016  # dpkg-query's own variables
  dpkg-query -W -f '${Package} ${Version} ${Architecture} ${source:Package}\n' "${packages[@]}" "${static[@]}" | awk '{
    id = $1; gsub(/[^A-Za-z0-9.-]/, "-", id)
    printf ",  {\"SPDXID\": \"SPDXRef-deb-%s\", \"name\": \"%s\", \"versionInfo\": \"%s\", \"supplier\": \"Organization: Debian\", \"sourceInfo\": \"built from %s\", \"downloadLocation\": \"NOASSERTION\", \"filesAnalyzed\": false, \"externalRefs\": [{\"referenceCategory\": \"PACKAGE-MANAGER\", \"referenceType\": \"purl\", \"referenceLocator\": \"pkg:deb/debian/%s@%s?arch=%s\"}]}\n", id, $1, $2, $4, $1, $2, $3 }'
  [[ -z $cuda ]] || cat <<JSON
,  {"SPDXID": "SPDXRef-cuda-runtime", "name": "cuda-runtime", "versionInfo": "$cuda", "supplier": "Organization: NVIDIA", "licenseComments": "NVIDIA CUDA Toolkit EULA", "downloadLocation": "NOASSERTION", "filesAnalyzed": false}
JSON
  echo ' ], "relationships": ['
  {
    printf 'DYNAMIC_LINK deb-%s\n' "${packages[@]}"
    printf 'STATIC_LINK deb-%s\n' "${static[@]}"
    [[ -z $cuda ]] || echo STATIC_LINK cuda-runtime
  } | awk '{
    gsub(/[^A-Za-z0-9.-]/, "-", $2)
    printf "%s  {\"spdxElementId\": \"SPDXRef-spin\", \"relationshipType\": \"%s\", \"relatedSpdxElement\": \"SPDXRef-%s\"}\n", (NR > 1 ? "," : " "), $1, $2 }'
  echo ']}'
} >"$out/usr/share/spin/sbom.spdx.json"

echo 'spin:x:65532:65532:spin:/:/nonexistent' >"$out/etc/passwd"
echo 'spin:x:65532:' >"$out/etc/group"
chmod 1777 "$out/tmp"
chown 65532:65532 "$out/run/spin"
