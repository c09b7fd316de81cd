#!/usr/bin/env python3
# SPDX-FileCopyrightText: The Spin Authors
# SPDX-License-Identifier: Apache-2.0
"""Writes kubeconform schemas out of Kubernetes' OpenAPI v3 documents and CRDs; no network.

usage: mkschemas.py OUT SOURCE...
SOURCE: a folder of OpenAPI v3 documents (k8s.io/kubernetes module: api/openapi-spec/v3), one such document, or a CRD (.yaml).
Use:    kubeconform -strict -schema-location 'OUT/{{.Group}}/{{.ResourceKind}}_{{.ResourceAPIVersion}}{{.StrictSuffix}}.json' FILE...
"""
import json, pathlib, sys

out, *sources = sys.argv[1:]
out = pathlib.Path(out)

def strict(s):
    """Unknown keys become errors wherever the schema names its keys."""
    if isinstance(s, list):
        return [strict(x) for x in s]
    if not isinstance(s, dict):
        return s
    s = {k: {n: strict(x) for n, x in v.items()} if k in ("properties", "definitions") else strict(v) for k, v in s.items()}
    if isinstance(s.get("properties"), dict) and "additionalProperties" not in s and not s.get("x-kubernetes-preserve-unknown-fields"):
        s["additionalProperties"] = False
    return s

def clean(s):
    """OpenAPI to JSON schema: nullable, int-or-string, references; annotations dropped."""
    if isinstance(s, list):
        return [clean(x) for x in s]
    if not isinstance(s, dict):
        return s
    r = {}
    for k, v in s.items():
        if k == "$ref" and isinstance(v, str):
            r[k] = v.replace("#/components/schemas/", "#/definitions/")
        elif k in ("properties", "definitions"):
            r[k] = {n: clean(x) for n, x in v.items()}
        elif k in ("description", "default", "nullable", "format") or (k.startswith("x-kubernetes-") and k != "x-kubernetes-preserve-unknown-fields"):
            continue
        else:
            r[k] = clean(v)
    if s.get("x-kubernetes-int-or-string") or s.get("format") == "int-or-string":
        r = {"oneOf": [{"type": "integer"}, {"type": "string"}]}
    if s.get("nullable") and isinstance(r.get("type"), str):
        r["type"] = [r["type"], "null"]
    return r

def write(group, version, kind, schema):
    d = out / (group or version)  # kubeconform names the core group by its version
    d.mkdir(parents=True, exist_ok=True)
    for suffix, s in (("", schema), ("-strict", strict(schema))):
        (d / f"{kind.lower()}_{version}{suffix}.json").write_text(json.dumps(s, separators=(",", ":")))

def closure(name, defs):
    seen, todo = {}, [name]
    while todo:
        n = todo.pop()
        if n in seen:
            continue
        seen[n] = clean(defs[n])
        def walk(x):
            if isinstance(x, dict):
                if isinstance(x.get("$ref"), str):
                    todo.append(x["$ref"].rsplit("/", 1)[1])
                for y in x.values():
                    walk(y)
            elif isinstance(x, list):
                for y in x:
                    walk(y)
        walk(defs[n])
    return seen

def openapi(doc):
    defs = doc.get("components", {}).get("schemas", {})
    for name, s in defs.items():
        for gvk in s.get("x-kubernetes-group-version-kind", []):
            if "apiVersion" not in s.get("properties", {}) or len(s["x-kubernetes-group-version-kind"]) > 1:
                continue
            d = closure(name, defs)
            top = dict(d[name]); top["required"] = sorted(set(top.get("required", [])) | {"apiVersion", "kind"})
            write(gvk["group"], gvk["version"], gvk["kind"], {"$schema": "http://json-schema.org/draft-07/schema#", **top, "definitions": d})

def crd(doc):
    for v in doc["spec"]["versions"]:
        s = clean(v["schema"]["openAPIV3Schema"])
        s["properties"].setdefault("metadata", {"type": "object"})
        s["properties"]["metadata"] = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        write(doc["spec"]["group"], v["name"], doc["spec"]["names"]["kind"], {"$schema": "http://json-schema.org/draft-07/schema#", **s})

for src in map(pathlib.Path, sources):
    for f in sorted(src.glob("*_openapi.json")) if src.is_dir() else [src]:
        if f.suffix == ".json":
            openapi(json.loads(f.read_text()))
        else:
            import yaml
            for d in yaml.safe_load_all(f.read_text()):
                if d and d.get("kind") == "CustomResourceDefinition":
                    crd(d)
print(sum(1 for _ in out.rglob("*.json")), "schemas in", out)
