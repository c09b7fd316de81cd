#!/usr/bin/env python3
# SPDX-FileCopyrightText: The Spin Authors
# SPDX-License-Identifier: Apache-2.0
"""A docker-archive image without an engine.  usage: mkimage.py OUT.tar NAME:TAG ENTRYPOINT_JSON HOSTFILE=/path[:mode]... [LINK->TARGET...]"""
import hashlib, io, json, sys, tarfile
out, ref, entry, *files = sys.argv[1:]
layer = io.BytesIO()
with tarfile.open(fileobj=layer, mode="w") as t:
    made = set()
    def parents(p):
        parts = p.strip("/").split("/")[:-1]
        for i in range(1, len(parts) + 1):
            d = "/".join(parts[:i])
            if d not in made:
                made.add(d); ti = tarfile.TarInfo(d); ti.type = tarfile.DIRTYPE; ti.mode = 0o755; t.addfile(ti)
    for f in files:
        if "->" in f:
            link, target = f.split("->"); parents(link)
            ti = tarfile.TarInfo(link.strip("/")); ti.type = tarfile.SYMTYPE; ti.linkname = target; t.addfile(ti)
        else:
            src, dst = f.split("=", 1); parents(dst)
            data = open(src, "rb").read(); ti = tarfile.TarInfo(dst.strip("/")); ti.size = len(data); ti.mode = 0o755; t.addfile(ti, io.BytesIO(data))
    for d, m in (("tmp", 0o1777), ("etc", 0o755), ("proc", 0o755), ("sys", 0o755), ("dev", 0o755), ("run", 0o755)):
        if d not in made:
            ti = tarfile.TarInfo(d); ti.type = tarfile.DIRTYPE; ti.mode = m; t.addfile(ti)
lb = layer.getvalue(); diff = "sha256:" + hashlib.sha256(lb).hexdigest()
cfg = json.dumps({"architecture": "amd64", "os": "linux", "config": {"Entrypoint": json.loads(entry), "Env": ["PATH=/bin"]}, "rootfs": {"type": "layers", "diff_ids": [diff]}, "history": [{"created_by": "mkimage"}]}).encode()
ch = hashlib.sha256(cfg).hexdigest()
with tarfile.open(out, "w") as t:
    for name, data in ((f"{ch}.json", cfg), ("layer.tar", lb), ("manifest.json", json.dumps([{"Config": f"{ch}.json", "RepoTags": [ref], "Layers": ["layer.tar"]}]).encode())):
        ti = tarfile.TarInfo(name); ti.size = len(data); t.addfile(ti, io.BytesIO(data))
