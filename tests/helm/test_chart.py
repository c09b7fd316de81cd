# SPDX-FileCopyrightText: The Spin Authors
# SPDX-License-Identifier: Apache-2.0
"""The chart without a cluster: unit tests, lint, schemas, generated files, and every value to a second one and to a typo."""

import copy
import functools
import json
import os
import pathlib
import re
import subprocess

import pytest
import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
CHART = ROOT / "helm" / "spin"
TOOLS = pathlib.Path(os.environ.get("SPIN_KUBE", pathlib.Path.home() / ".cache" / "spin-kube"))
ENV = {**os.environ, "PATH": f"{TOOLS}/tools:{TOOLS}/bin:{os.environ['PATH']}"}
ALL_APIS = ["--api-versions", "monitoring.coreos.com/v1/PodMonitor", "--api-versions", "monitoring.coreos.com/v1/PrometheusRule",
            "--api-versions", "admissionregistration.k8s.io/v1/MutatingAdmissionPolicy",
            "--api-versions", "admissionregistration.k8s.io/v1/ValidatingAdmissionPolicy", "--kube-version", "1.36"]
VALUES = yaml.safe_load((CHART / "values.yaml").read_text())
EXAMPLES = {"defaults": {}, "dra": {"gpu": {"mode": "dra"}}, "visible": {"gpu": {"mode": "visibleDevices"}}, "mps": {"gpu": {"mode": "dra"}, "mps": {"enabled": True}},
            "injection": {"injection": {"enabled": True}, "reference": {"enabled": False}}, "injection-map": {"injection": {"enabled": True, "settings": "configMap"}},
            "injected-dra": {"injection": {"enabled": True}, "gpu": {"mode": "dra"}},
            "target": {"policy": {"budgetMode": "target_miss", "targetMiss": 0.02}}, "file": {"policy": {"file": json.dumps({"format": "spin-policy", "version": 1, "policy": {}})}},
            "injected-file": {"injection": {"enabled": True}, "policy": {"configMap": "mine"}}, "old": {"nativeSidecar": False}, "umbrella": {"global": {"imageRegistry": "x", "anything": {"else": 1}}}}


def run(*words, stdin=None, check=True):
    result = subprocess.run([str(word) for word in words], env=ENV, capture_output=True, text=True, input=stdin, check=False)
    assert not check or result.returncode == 0, result.stdout + result.stderr
    return result


def render(values, helm="helm3", check=True):
    return run(helm, "template", "x", CHART, *ALL_APIS, "-f", "-", stdin=json.dumps(values), check=check)


@functools.cache
def schemas(folder) -> str:
    """kubeconform's schemas of this Kubernetes and of the operator's kinds."""
    module = run("go", "list", "-C", ROOT / "tests/kube/cluster/kube", "-m", "-f", "{{.Dir}}", "k8s.io/kubernetes").stdout.strip()
    run("python3", ROOT / "tests/kube/cluster/schemas.py", folder, f"{module}/api/openapi-spec/v3", ROOT / "tests/kube/crds.yaml")
    return f"{folder}/{{{{.Group}}}}/{{{{.ResourceKind}}}}_{{{{.ResourceAPIVersion}}}}{{{{.StrictSuffix}}}}.json"


def test_unit_tests_of_the_chart():
    run("helm-unittest", CHART)


@pytest.mark.parametrize("helm", ["helm3", "helm4"])
@pytest.mark.parametrize("name", EXAMPLES)
def test_lint_and_strict_schemas(helm, name, tmp_path_factory):
    values = tmp_path_factory.mktemp(name) / "values.json"
    values.write_text(json.dumps(EXAMPLES[name]))
    run(helm, "lint", "--strict", CHART, "-f", values, "--kube-version", "1.36") if not name.startswith("inject") else None  # lint knows no APIs
    folder = tmp_path_factory.getbasetemp() / "schemas"
    run("kubeconform", "-strict", "-summary", "-schema-location", schemas(str(folder)), stdin=render(EXAMPLES[name], helm).stdout)


def test_examples_pass_the_schemas(tmp_path_factory):
    location = schemas(str(tmp_path_factory.getbasetemp() / "schemas"))
    for manifest in (run("helm3", "template", "own", ROOT / "examples/kubernetes/own-chart", "--kube-version", "1.36").stdout,
                     run("kubectl", "kustomize", ROOT / "examples/kubernetes/kustomize").stdout):
        run("kubeconform", "-strict", "-schema-location", location, stdin=manifest)


@pytest.mark.parametrize("name", EXAMPLES)
def test_no_list_that_merges_by_name_has_one_twice(name):
    """Server-side apply refuses them."""
    for document in yaml.safe_load_all(render(EXAMPLES[name]).stdout):
        for containers in find(document, "containers") + find(document, "initContainers"):
            for container in containers:
                names = [one["name"] for one in container.get("env", ())]
                assert len(names) == len(set(names)), names


def find(node, key):
    if isinstance(node, dict):
        return ([node[key]] if isinstance(node.get(key), list) else []) + [hit for value in node.values() for hit in find(value, key)]
    return [hit for value in node for hit in find(value, key)] if isinstance(node, list) else []


@pytest.mark.parametrize("helm", ["helm3", "helm4"])
def test_is_a_part_of_an_umbrella_chart(helm, tmp_path):
    """Which has globals of its own, an alias, and null where it wants no default."""
    (tmp_path / "charts").mkdir()
    (tmp_path / "charts" / "spin").symlink_to(CHART)
    (tmp_path / "Chart.yaml").write_text(json.dumps({"apiVersion": "v2", "name": "umbrella", "version": "1.0.0", "dependencies": [{"name": "spin", "version": "0.1.0", "alias": "sidecar"}]}))
    (tmp_path / "values.yaml").write_text(json.dumps({"global": {"imagePullSecrets": ["x"], "team": {"name": "y"}}, "sidecar": {"policy": {"sparsity": 0.6}, "reference": {"affinity": None}}}))
    manifest = run(helm, "template", "u", tmp_path, *ALL_APIS).stdout
    assert 'value: "0.6"' in manifest and "name: u-sidecar" in manifest


# ---- values: each documented one to a second legal value and to a typo ----

SECOND = {
    "policy.sparsity": 0.3, "policy.budgetMode": "calibrated", "policy.targetMiss": 0.02, "policy.minSparsity": 0.2, "policy.maxSparsity": 0.8, "policy.exploration": 0.1, "policy.decay": 0.9,
    "policy.auditEvery": 16, "policy.seed": 7, "policy.pinFirstBlock": True, "policy.file": '{"format": "spin-policy", "version": 1, "policy": {}}',
    "image.digest": "sha256:" + "0" * 64, "image.pullPolicy": "Always", "nativeSidecar": False, "gpu.mode": "dra", "slab.size": "2Gi", "policy.stateDtype": "bf16",
    "log.level": "debug", "log.format": "text", "allowUids": [1000], "extraArgs": ["--step-queue=9"], "extraEnv": [{"name": "A", "value": "b"}], "admin.host": "[::]",
    "resources": {"limits": {"memory": "1Gi"}}, "securityContext": {"runAsUser": 1000}, "startupProbe": {"periodSeconds": 2}, "livenessProbe": {"periodSeconds": 20},
    "reference.engine.command": ["x"], "reference.engine.args": ["y"], "reference.engine.env": [{"name": "A", "value": "b"}], "reference.engine.ports": [{"containerPort": 1}],
    "reference.engine.resources": {"limits": {"memory": "1Gi"}}, "reference.engine.securityContext": {"runAsUser": 1}, "reference.engine.volumeMounts": [{"name": "v", "mountPath": "/v"}],
    "reference.imagePullSecrets": [{"name": "s"}], "reference.volumes": [{"name": "v", "emptyDir": {}}], "reference.tolerations": [{"operator": "Exists"}],
    "reference.strategy": {"type": "Recreate"}, "reference.affinity": {"nodeAffinity": {}}, "injection.failurePolicy": "Fail", "injection.enabled": False, "injection.settings": "configMap",
    "injection.namespaceSelector": {"matchLabels": {"a": "b"}}, "networkPolicy.from": [{"podSelector": {}}], "podMonitor.enabled": True, "prometheusRule.enabled": True,
    "podMonitor.interval": "30s", "podMonitor.relabelings": [{"action": "labeldrop", "regex": "x"}], "podMonitor.metricRelabelings": [{"action": "drop"}],
    "extraObjects": [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}}], "reference.podLabels": {"a": "b"}, "reference.podAnnotations": {"a": "b"},
}
NEEDS = {"policy.targetMiss": {"policy": {"budgetMode": "target_miss"}}, "gpu.dra": {"gpu": {"mode": "dra"}}, "gpu.visibleDevices": {"gpu": {"mode": "visibleDevices"}}, "mps": {"gpu": {"mode": "dra"}}, "injection": {"injection": {"enabled": True}},
         "image.tag": {}, "allNamespaces": {}, "prometheusRule": {}}
UNSEEN = {"reference.enabled", "mps.enabled", "gpu.dra.request"}  # change much, or need more
FREE = {"resources", "securityContext", "startupProbe", "livenessProbe", "reference.engine.resources", "reference.engine.securityContext", "injection.namespaceSelector",
        "dashboard.labels", "dashboard.annotations", "commonLabels"}


def leaves(node, path=""):
    for key, value in node.items():
        here = f"{path}.{key}".lstrip(".")
        if isinstance(value, dict) and value and here not in FREE:
            yield from leaves(value, here)
        else:
            yield here, value


LEAVES = dict(leaves(VALUES))


def at(path, value):
    for key in reversed(path.split(".")):
        value = {key: value}
    return value


def merged(a, b):
    out = copy.deepcopy(a)
    for key, value in b.items():
        out[key] = merged(out[key], value) if isinstance(value, dict) and isinstance(out.get(key), dict) else value
    return out


def second(path, value):
    if path in SECOND:
        return SECOND[path]
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + 1
    return {"a": "b"} if isinstance(value, dict) else "other"


@pytest.mark.parametrize("path", LEAVES)
def test_second_value_is_taken_and_changes_what_is_rendered(path):
    base = next((values for prefix, values in NEEDS.items() if path.startswith(prefix)), {})
    changed = render(merged(base, at(path, second(path, LEAVES[path])))).stdout
    assert changed != render(base).stdout or path in UNSEEN or path.startswith(("podMonitor.enabled", "prometheusRule.enabled"))


@pytest.mark.parametrize("path", LEAVES)
def test_typo_is_refused(path):
    head, _, last = path.rpartition(".")
    result = render(at(f"{head}.{last}x".lstrip("."), LEAVES[path]), check=False)
    assert result.returncode != 0 and f"{last}x" in result.stderr


@pytest.mark.parametrize("values", [at("policy.sparsity", 1), at("policy.sparsity", "much"), at("policy.stateDtype", "fp8"), at("policy.targetMiss", 0), at("policy.budgetMode", "learnt"), at("policy.maxSparsity", 1), at("slab.size", "2G"), at("gpu.mode", "mig"),
                                    at("admin.port", 70000), at("log.level", "loud"), at("image.digest", "sha256:1"), at("reference.replicas", -1)], ids=str)
def test_wrong_value_is_refused(values):
    assert render(values, check=False).returncode != 0


@pytest.mark.parametrize("typo", ["sapce", "slab.sise", "policy.sparsty", "gpu.dra.clam"])
def test_library_refuses_typos_under_its_key(typo):
    result = run("helm3", "template", "own", ROOT / "examples/kubernetes/own-chart", "--kube-version", "1.36", "--set", f"spin.{typo}=1", check=False)
    assert result.returncode != 0 and f"{typo} is not a value of the sidecar; there are" in result.stderr


def test_fields_of_policy_files_are_those_of_the_documentation():
    table = re.search(r"\| field of `policy`.*?\n\n", (ROOT / "docs/policy-file.md").read_text(), re.DOTALL).group()
    documented = {name for line in table.splitlines()[2:] if line for name in re.findall(r"`(\w+)`", line.split("|")[1])}
    fields = re.search(r'define "spin.policyFields" -}}\n(.*?)\n', (CHART / "templates/_helpers.tpl").read_text()).group(1)
    assert set(yaml.safe_load(fields)) == documented


def test_values_that_the_documentation_names_exist():
    """Words such as `slab.size`: the first part is a group of values, the rest is not the name of a file."""
    groups = "|".join(key for key, value in VALUES.items() if isinstance(value, dict) and key not in FREE)
    known = {".".join(path.split(".")[:n + 1]) for path in LEAVES for n in range(path.count(".") + 1)}
    for page in [ROOT / "docs/operations.md", *(ROOT / "docs/runbooks").glob("*.md"), CHART / "README.md", CHART / "templates/NOTES.txt"]:
        named = set(re.findall(rf"[` ]((?:{groups})\.(?!json|yaml|md)[A-Za-z.]*[A-Za-z])", page.read_text()))
        assert {path for path in named if path not in known and not path.startswith(tuple(f"{free}." for free in FREE))} == set(), page.name


# ---- what is generated, or said in two places ----

def test_readme_is_generated_from_the_values(tmp_path):
    subprocess.run(["cp", "-rL", CHART, tmp_path / "spin"], check=True)
    run("helm-docs", "--chart-search-root", tmp_path, "--sort-values-order", "file")
    assert (tmp_path / "spin" / "README.md").read_text() == (CHART / "README.md").read_text(), "run `make chart-docs`"


def test_every_value_is_described():
    described = set(re.findall(r"^\| ([A-Za-z.]+) \|", (CHART / "README.md").read_text(), re.MULTILINE))
    assert set(LEAVES) <= described


@pytest.mark.parametrize("file", ["spin.rules.yaml", "spin-dashboard.json"])
def test_files_in_the_chart_are_those_of_deploy(file):
    assert (CHART / "files" / file).read_text() == (ROOT / "deploy" / "monitoring" / file).read_text(), "run `make chart-docs`"


def test_defaults_of_the_library_are_those_of_the_chart():
    text = (ROOT / "helm/spinlib/templates/_defaults.tpl").read_text()
    defaults = yaml.safe_load(re.search(r'define "spinlib.defaults" -}}\n(.*?){{- end', text, re.DOTALL).group(1))
    def within(small, large, path=""):
        for key, value in small.items():
            if isinstance(value, dict) and value:
                within(value, large[key], f"{path}.{key}")
            else:
                assert large[key] == value, f"{path}.{key}"
    within(defaults, VALUES)


def test_defaults_in_the_descriptions_are_those_of_spind():
    """Values that are empty by default say what spind then does."""
    fields = dict(re.findall(r"^  (?:double|uint64_t|uint32_t|bool) (\w+) = ([\w.]+);", (ROOT / "server" / "policy.h").read_text(), re.MULTILINE))
    text = (CHART / "values.yaml").read_text()
    for value, field in {"sparsity": "sparsity", "targetMiss": "target_miss", "minSparsity": "min_sparsity", "maxSparsity": "max_sparsity", "exploration": "exploration",
                         "decay": "decay", "auditEvery": "audit_every", "seed": "seed", "pinFirstBlock": "pin_first_block"}.items():
        described = re.search(rf"Empty: the policy file's, or ([\w.]*\w)\.(?: [^\n]*)?\n  # @section -- Policy\n  {value}: \"\"", text)
        assert described and described.group(1) == fields[field], value


def test_versions_are_one():
    version = re.search(r"project\(spin[^)]*VERSION ([\d.]+)", (ROOT / "CMakeLists.txt").read_text(), re.DOTALL).group(1)
    for chart in ("spin", "spinlib"):
        assert yaml.safe_load((ROOT / "helm" / chart / "Chart.yaml").read_text())["version"] == version
    assert f'"spinlib.version" -}}}}{version}{{{{' in (ROOT / "helm/spinlib/templates/_defaults.tpl").read_text()
    assert f"VERSION={version}" in (ROOT / "deploy/Dockerfile").read_text()


@pytest.mark.parametrize("file", ["sidecar.yaml", "stateful-set.yaml"])
def test_kustomize_component_is_what_the_chart_renders(file):
    deployment = next(document for document in yaml.safe_load_all(render({}).stdout) if document["kind"] == "Deployment")
    pod = deployment["spec"]["template"]["spec"]
    patch = yaml.safe_load((ROOT / "deploy/kustomize/sidecar" / file).read_text())["spec"]["template"]["spec"]
    for part in ("initContainers", "volumes", "securityContext", "shareProcessNamespace"):
        assert patch[part] == pod[part], part
    for part in ("env", "volumeMounts"):
        assert patch["containers"][0][part] == pod["containers"][0][part], part


def test_examples_of_the_kustomize_component_are_complete(tmp_path):
    """Those of its README: all four places of the slab follow, as the chart has them; and a policy file reaches spind."""
    component = ROOT / "deploy/kustomize/sidecar"
    examples = re.findall(r"```yaml\n(.*?)```", (component / "README.md").read_text(), re.DOTALL)
    pods = []
    for number, example in enumerate(examples):
        folder = tmp_path / str(number)
        folder.mkdir()
        subprocess.run(["cp", "-r", component, folder / "sidecar"], check=True)
        (folder / "deployment.yaml").write_text((ROOT / "examples/kubernetes/kustomize/deployment.yaml").read_text())
        (folder / "policy.json").write_text('{"format": "spin-policy", "version": 1, "policy": {}}')
        (folder / "kustomization.yaml").write_text(example)
        documents = list(yaml.safe_load_all(run("kubectl", "kustomize", folder).stdout))
        pods.append(next(one for one in documents if one["kind"] == "Deployment")["spec"]["template"]["spec"])
        assert pods[-1]["initContainers"][0]["image"] == "REGISTRY/spin:0.1.0"
    larger, policy = pods
    rendered = next(one for one in yaml.safe_load_all(render(at("slab.size", "2Gi")).stdout) if one["kind"] == "Deployment")["spec"]["template"]["spec"]
    def by_name(items):
        return {one["name"]: one for one in items}
    assert by_name(larger["initContainers"][0]["env"]) == by_name(rendered["initContainers"][0]["env"])
    assert larger["initContainers"][0]["resources"] == rendered["initContainers"][0]["resources"]
    assert larger["volumes"] == rendered["volumes"]
    (name,) = [one["configMap"]["name"] for one in policy["volumes"] if one["name"] == "spin-policy"]
    assert name.startswith("spin-policy-")  # with the sum of its content
    assert by_name(policy["initContainers"][0]["env"])["SPIND_POLICY"]["value"] == "/etc/spin/policy.json"
    assert by_name(policy["initContainers"][0]["volumeMounts"])["spin-policy"]["mountPath"] == "/etc/spin"
