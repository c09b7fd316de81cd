# SPDX-FileCopyrightText: The Spin Authors
# SPDX-License-Identifier: Apache-2.0
"""The real image and the real chart on a real Kubernetes: all three ways, and what may happen to a pod."""

import json
import os
import pathlib
import re
import signal
import subprocess
import urllib.request

import pytest
import yaml
from cluster import IMAGE, OTHER_IMAGE, ROOT, environment, eventually, predicted_rows

ON_DEVICE = "extraArgs={--device=cpu,--slab-bytes=8MiB}"  # a pretended GPU has no CUDA
RESTRICTED = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}


def engine_pod(name="engine", steps="0", annotations=(), claims=None, user=65532):
    """A pod of somebody who knows nothing of the sidecar but the label."""
    pod = {
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "labels": {"spin/inject": "true", "app": name}, "annotations": dict(annotations)},
        "spec": {
            "restartPolicy": "Never", "terminationGracePeriodSeconds": 5, "automountServiceAccountToken": False, "enableServiceLinks": False,
            "securityContext": {"runAsNonRoot": True, "runAsUser": user, "seccompProfile": {"type": "RuntimeDefault"}},
            "containers": [{"name": "engine", "image": IMAGE, "command": ["example_engine"], "args": ["/run/spin/spind.sock", steps], "securityContext": RESTRICTED}]}}
    if claims:
        pod["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": claims}]
        pod["spec"]["containers"][0]["resources"] = {"claims": [{"name": "gpu"}]}
    return pod


def assert_engine_gets_lists(kube, namespace, pod, more_than=0):
    return eventually(lambda: (rows := predicted_rows(kube.logs(namespace, pod, "engine"))) > more_than and rows, within=60)


def container_status(pod, name):
    return next(status for status in (*pod["status"].get("initContainerStatuses", ()), *pod["status"]["containerStatuses"]) if status["name"] == name)


@pytest.mark.parametrize("helm", ["3", "4"])
def test_chart_installs_tests_upgrades_rolls_back_and_leaves_nothing(kube, namespace, install, helm):
    notes = install(helm, namespace, "a")
    assert "See it work" in notes
    selector = "app.kubernetes.io/instance=a"
    first = kube.pod(namespace, selector)["metadata"]["name"]
    assert_engine_gets_lists(kube, namespace, first)
    assert kube.get("-n", namespace, "podmonitor,prometheusrule,networkpolicy")["items"]
    kube.helm(helm, "test", "a", "-n", namespace, "--timeout", "90s")

    install(helm, namespace, "a", "policy.sparsity=0.7")
    def sparsity():
        env = kube.pod(namespace, selector)["spec"]["initContainers"][0]["env"]
        return next((one["value"] for one in env if one["name"] == "SPIND_SPARSITY"), None)
    eventually(lambda: sparsity() == "0.7")
    kube.helm(helm, "rollback", "a", "1", "-n", namespace, "--wait", "--timeout", "90s")
    eventually(lambda: sparsity() is None)

    kube.helm(helm, "uninstall", "a", "-n", namespace, "--wait", "--timeout", "90s")
    kinds = "deployments,pods,configmaps,networkpolicies,podmonitors,prometheusrules,secrets"
    eventually(lambda: not [item for item in kube.get("-n", namespace, kinds)["items"] if item["metadata"]["name"] != "kube-root-ca.crt"])


@pytest.mark.parametrize("helm", ["3", "4"])
def test_failed_helm_test_shows_its_log_until_the_next(kube, namespace, install, helm):
    install(helm, namespace, "a", "allowUids={4242}", wait=False)  # the doctor is another
    result = kube.helm(helm, "test", "a", "-n", namespace, "--logs", "--timeout", "90s", check=False)
    assert result.returncode != 0 and "--allow-uids" in result.stdout, result
    install(helm, namespace, "a")
    kube.helm(helm, "test", "a", "-n", namespace, "--timeout", "90s")
    eventually(lambda: not [pod for pod in kube.get("-n", namespace, "pods")["items"] if pod["metadata"]["name"].endswith("-doctor")])


class TestInjection:
    @pytest.fixture(autouse=True)
    def policy(self, kube, install):
        if "spin-system" not in kube.kubectl("get", "namespaces"):
            kube.create_namespace("spin-system", {})
        install("4", "spin-system", "spin", "injection.enabled=true", "reference.enabled=false")
        self.await_policy(kube)

    @staticmethod
    def await_policy(kube):
        """A new policy takes about a second to act."""
        kube.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "probe", "labels": {"spin/injection": "enabled"}}})
        def acts():
            return "spin/injected" in kube.kubectl("-n", "probe", "create", "--dry-run=server", "-o", "yaml", "-f", "-", stdin=json.dumps(engine_pod()))
        eventually(acts)

    def test_labelled_pod_gets_the_sidecar_and_its_engine_block_lists(self, kube, namespace):
        kube.apply(engine_pod(annotations={"spin/slab-size": "32Mi", "spin/sparsity": "0.5"}.items(), user=1000), namespace)
        assert_engine_gets_lists(kube, namespace, "engine")
        pod = kube.get("-n", namespace, "pod", "engine")
        assert pod["metadata"]["annotations"]["spin/injected"] == "spin-system/spin"
        assert [container["name"] for container in pod["spec"]["initContainers"]] == ["spin"]
        assert pod["spec"]["initContainers"][0]["resources"]["limits"]["memory"] == str((32 + 128) << 20)
        assert container_status(pod, "spin")["restartCount"] == 0

    def test_pod_without_label_and_namespace_without_opt_in_are_left_alone(self, kube, namespace):
        plain = engine_pod("plain")
        del plain["metadata"]["labels"]["spin/inject"]
        kube.apply(plain, namespace)
        assert "initContainers" not in kube.get("-n", namespace, "pod", "plain")["spec"]
        other = kube.create_namespace(f"{namespace[:40]}-out", {})
        kube.apply(engine_pod("outside"), other)
        assert "initContainers" not in kube.get("-n", other, "pod", "outside")["spec"]
        kube.kubectl("delete", "namespace", other, "--wait=false")

    def test_two_injections_are_one(self, kube, namespace, install):
        install("3", "spin-system", "again", "injection.enabled=true", "reference.enabled=false")
        eventually(lambda: len(kube.get("mutatingadmissionpolicies")["items"]) == 2)
        kube.apply(engine_pod(), namespace)
        pod = kube.get("-n", namespace, "pod", "engine")
        assert [container["name"] for container in pod["spec"]["initContainers"]] == ["spin"]
        assert [volume["name"] for volume in pod["spec"]["volumes"]] == ["spin-run"]
        assert_engine_gets_lists(kube, namespace, "engine")

    def test_settings_in_a_config_map_hold_for_later_pods(self, kube, namespace, install):
        """Under a name of its own, so that the policies of other tests stay out of it."""
        kube.helm("4", "uninstall", "spin", "-n", "spin-system")
        install("4", "spin-system", "map", "injection.enabled=true", "reference.enabled=false", "injection.settings=configMap")
        self.await_policy(kube)
        kube.kubectl("-n", "spin-system", "patch", "configmap", "map-spin-inject", "--type=merge", "-p", json.dumps({"data": {"sparsity": "0.25"}}))

        def sparsity():
            pod = json.loads(kube.kubectl("-n", namespace, "create", "--dry-run=server", "-o", "json", "-f", "-", stdin=json.dumps(engine_pod())))
            return next(one["value"] for one in pod["spec"]["initContainers"][0]["env"] if one["name"] == "SPIND_SPARSITY")
        eventually(lambda: sparsity() == "0.25")

    def test_policy_file_of_the_pods_namespace_holds(self, kube, namespace):
        file = {"format": "spin-policy", "version": 1, "policy": {"sparsity": 0.55, "budget_mode": "calibrated"}}
        kube.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "mine"}, "data": {"policy.json": json.dumps(file)}}, namespace)
        kube.apply(engine_pod(annotations={"spin/policy": "mine"}.items()), namespace)
        assert_engine_gets_lists(kube, namespace, "engine")
        policy = json.loads(kube.kubectl("-n", namespace, "exec", "engine", "-c", "spin", "--", "spinctl", "sessions", "--json"))["sessions"][0]["policy"]
        assert (policy["sparsity"], policy["budget_mode"]) == (0.55, "calibrated")

    @pytest.mark.parametrize("annotation, reason", [(("spin/policy", "wrong"), "policy"), (("spin/policy", "missing"), "policy"), (("spin/sparsity", "50"), "config")])
    def test_sidecar_that_cannot_serve_lets_its_engine_start(self, kube, namespace, annotation, reason):
        file = {"format": "spin-policy", "version": 1, "policy": {"sparsitty": 0.5}}
        kube.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "wrong"}, "data": {"policy.json": json.dumps(file)}}, namespace)
        kube.apply(engine_pod(annotations=[annotation]), namespace)
        def answers():
            return "(no_sidecar)" in kube.logs(namespace, "engine", "engine")
        eventually(answers)
        pod = kube.get("-n", namespace, "pod", "engine")
        assert [container_status(pod, name)["restartCount"] for name in ("spin", "engine")] == [0, 0]
        assert f"not serving ({reason})" in kube.logs(namespace, "engine", "spin")

    def test_named_engine_among_several_containers_is_the_one(self, kube, namespace):
        pod = engine_pod(annotations={"spin/engine-container": "engine"}.items())
        pod["spec"]["containers"].insert(0, {**pod["spec"]["containers"][0], "name": "proxy", "command": ["spinctl"], "args": ["--version"]})
        kube.apply(pod, namespace)
        proxy, engine = kube.get("-n", namespace, "pod", "engine")["spec"]["containers"]
        assert "volumeMounts" not in proxy and "env" not in proxy
        assert engine["env"][0]["name"] == "SPIN_SOCKET"

    def test_sidecar_starts_first_and_ends_last_and_does_not_keep_a_job_alive(self, kube, namespace):
        kube.apply(engine_pod(steps="8"), namespace)
        eventually(lambda: kube.get("-n", namespace, "pod", "engine")["status"]["phase"] == "Succeeded")
        pod = kube.get("-n", namespace, "pod", "engine")
        spin, engine = (container_status(pod, name)["state"]["terminated"] for name in ("spin", "engine"))
        assert spin["startedAt"] <= engine["startedAt"] and engine["finishedAt"] <= spin["finishedAt"]
        assert spin["exitCode"] == 0 and engine["exitCode"] == 0
        assert "SIGTERM: stopping" in kube.logs(namespace, "engine", "spin")
        assert predicted_rows(kube.logs(namespace, "engine", "engine")) > 0


def test_killed_sidecar_is_a_non_event_for_the_engine(kube, namespace, install):
    install("4", namespace, "a")
    name = kube.pod(namespace, "app.kubernetes.io/instance=a")["metadata"]["name"]
    before = assert_engine_gets_lists(kube, namespace, name)
    (spind,) = kube.processes("spind", name)
    (engine,) = kube.processes("example_engine", name)
    os.kill(spind, signal.SIGKILL)
    eventually(lambda: container_status(kube.get("-n", namespace, "pod", name), "spin")["restartCount"] == 1)
    log = eventually(lambda: "(no_sidecar)" in (text := kube.logs(namespace, name, "engine")) and text)
    assert_engine_gets_lists(kube, namespace, name, more_than=max(before, predicted_rows(log)))
    assert kube.processes("example_engine", name) == [engine]
    assert container_status(kube.get("-n", namespace, "pod", name), "engine")["restartCount"] == 0


def test_image_of_the_sidecar_alone_can_change(kube, namespace):
    rendered = kube.helm("4", "template", "a", ROOT / "helm" / "spin", "--set", "image.repository=localhost/spin", "--set", "slab.size=64Mi",
                         "-s", "templates/reference-deployment.yaml", "--kube-version", "1.36").stdout
    deployment = next(document for document in rendered.split("---") if "kind: Deployment" in document)
    template = yaml.safe_load(deployment)["spec"]["template"]
    kube.apply({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "bare", **template["metadata"]}, "spec": template["spec"]}, namespace)
    before = assert_engine_gets_lists(kube, namespace, "bare")
    patch = [{"op": "replace", "path": "/spec/initContainers/0/image", "value": OTHER_IMAGE}]
    kube.kubectl("-n", namespace, "patch", "pod", "bare", "--type=json", "-p", json.dumps(patch))
    def changed():
        status = container_status(kube.get("-n", namespace, "pod", "bare"), "spin")
        return status["restartCount"] == 1 and status["image"] == OTHER_IMAGE and status["started"]
    eventually(changed, within=90)
    assert container_status(kube.get("-n", namespace, "pod", "bare"), "engine")["restartCount"] == 0
    assert_engine_gets_lists(kube, namespace, "bare", more_than=before)


class TestDynamicResources:
    @pytest.fixture(autouse=True)
    def device_class(self, kube):
        kube.apply({"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": "gpu.nvidia.com"},
                    "spec": {"selectors": [{"cel": {"expression": "device.driver == 'gpu.nvidia.com' && device.attributes['gpu.nvidia.com'].type == 'gpu'"}}]}})

    def same_gpu(self, kube, pod):
        (spind,) = eventually(lambda: kube.processes("spind", pod))
        (engine,) = eventually(lambda: kube.processes("example_engine", pod))
        gpus = {environment(pid)["FAKE_GPU_UUID"] for pid in (spind, engine)}
        assert len(gpus) == 1, gpus

    def test_reference_deployment_gives_both_containers_one_gpu(self, kube, namespace, install):
        install("4", namespace, "a", "gpu.mode=dra", ON_DEVICE)
        name = kube.pod(namespace, "app.kubernetes.io/instance=a")["metadata"]["name"]
        self.same_gpu(kube, name)
        assert_engine_gets_lists(kube, namespace, name)

    def test_injected_sidecar_names_the_claim_of_the_engine(self, kube, namespace, install):
        if "spin-system" not in kube.kubectl("get", "namespaces"):
            kube.create_namespace("spin-system", {})
        install("4", "spin-system", "dra", "injection.enabled=true", "reference.enabled=false", "gpu.mode=dra", ON_DEVICE)
        TestInjection.await_policy(kube)
        kube.apply({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate", "metadata": {"name": "one-gpu"}, "spec": {"spec": {"devices": {"requests": [
            {"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com", "allocationMode": "ExactCount", "count": 1}}]}}}}, namespace)
        kube.apply(engine_pod(claims="one-gpu"), namespace)
        self.same_gpu(kube, "engine")
        assert_engine_gets_lists(kube, namespace, "engine")


def test_own_chart_with_the_library(kube, namespace):
    chart = ROOT / "examples" / "kubernetes" / "own-chart"
    kube.helm("4", "upgrade", "--install", "own", chart, "-n", namespace, "--set", f"engine.image={IMAGE}", "--set", "spin.image.repository=localhost/spin",
              "--wait", "--timeout", "90s")
    name = kube.pod(namespace, "app=own")["metadata"]["name"]
    assert_engine_gets_lists(kube, namespace, name)
    kube.helm("4", "uninstall", "own", "-n", namespace)


def test_kustomize_component(kube, namespace):
    manifest = kube.kubectl("kustomize", ROOT / "examples" / "kubernetes" / "kustomize", "--load-restrictor=LoadRestrictionsNone")
    kube.apply(manifest.replace("image: spin:0.1.0", f"image: {IMAGE}"), namespace)
    name = eventually(lambda: kube.pod(namespace, "app=my-engine"))["metadata"]["name"]
    assert_engine_gets_lists(kube, namespace, name)


def test_prometheus_scrapes_the_pod_with_the_operator_and_without(kube, namespace, install, tmp_path):
    install("4", namespace, "a")
    monitor = kube.get("-n", namespace, "podmonitor", "a-spin")["spec"]
    endpoint = monitor["podMetricsEndpoints"][0]
    name = kube.pod(namespace, "app.kubernetes.io/instance=a")["metadata"]["name"]
    # What the operator makes of a PodMonitor: keep pods by label and containers by the name of a port, add namespace and pod.
    relabel = [*({"source_labels": ["__meta_kubernetes_pod_label_" + re.sub(r"\W", "_", label)], "regex": value, "action": "keep"}
                 for label, value in monitor["selector"]["matchLabels"].items()),
               {"source_labels": ["__meta_kubernetes_pod_container_port_name"], "regex": endpoint["port"], "action": "keep"},
               {"source_labels": ["__meta_kubernetes_namespace"], "target_label": "namespace"},
               {"source_labels": ["__meta_kubernetes_pod_name"], "target_label": "pod"},
               {"source_labels": ["__meta_kubernetes_pod_container_name"], "target_label": "container"}]
    without_operator = yaml.safe_load((ROOT / "deploy" / "monitoring" / "prometheus.yaml").read_text())["scrape_configs"]
    jobs = [{"job_name": "operator", "metrics_path": endpoint["path"], "relabel_configs": relabel}, *without_operator]
    discovery = [{"role": "pod", "kubeconfig_file": f"{kube.state}/kubeconfig", "namespaces": {"names": [namespace]}}]
    config = {"global": {"scrape_interval": "1s"}, "scrape_configs": [{**job, "kubernetes_sd_configs": discovery} for job in jobs]}
    (tmp_path / "prometheus.json").write_text(json.dumps(config))
    prometheus = subprocess.Popen(["prometheus", f"--config.file={tmp_path}/prometheus.json", f"--storage.tsdb.path={tmp_path}/data", "--web.listen-address=127.0.0.1:19490"],
                                  env=kube.env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        def scraped():
            reply = urllib.request.urlopen("http://127.0.0.1:19490/api/v1/query?query=spin_steps_total", timeout=2)
            by_job = {series["metric"]["job"]: series["metric"] for series in json.load(reply)["data"]["result"]}
            return len(by_job) == 2 and by_job
        for labels in eventually(scraped).values():
            assert (labels["namespace"], labels["pod"], labels["container"]) == (namespace, name, "spin")
    finally:
        prometheus.terminate()
        prometheus.wait()


def test_doctor_in_a_pod_finds_all_in_order(kube, namespace, install):
    install("4", namespace, "a")
    name = kube.pod(namespace, "app.kubernetes.io/instance=a")["metadata"]["name"]
    report = json.loads(kube.kubectl("-n", namespace, "exec", name, "-c", "spin", "--", "spinctl", "doctor", "--json"))
    assert {check["outcome"] for check in report["checks"]} <= {"ok", "info"}, report


def test_injection_works_with_the_beta_api(bare_api):
    kube = bare_api("--runtime-config=admissionregistration.k8s.io/v1beta1=true")
    manifest = kube.helm("4", "template", "spin", ROOT / "helm" / "spin", "--set", "injection.enabled=true", "--set", "reference.enabled=false",
                         "--kube-version", "1.34", "--api-versions", "admissionregistration.k8s.io/v1beta1/MutatingAdmissionPolicy", "-s", "templates/injection.yaml").stdout
    assert "admissionregistration.k8s.io/v1beta1" in manifest
    kube.apply(manifest)
    TestInjection.await_policy(kube)


@pytest.mark.parametrize("emulated", ["1.33", "1.35"])
def test_older_clusters_take_what_they_know_and_hear_what_they_lack(bare_api, emulated):
    kube = bare_api(f"--emulated-version={emulated}")
    version = json.loads(kube.kubectl("get", "--raw", "/version"))
    assert f"{version['major']}.{version.get('emulationMinor', version['minor'])}" == emulated, version
    refusal = kube.helm("4", "install", "spin", ROOT / "helm" / "spin", "--set", "injection.enabled=true", check=False).stderr
    assert "needs the kind MutatingAdmissionPolicy, which this cluster does not serve" in refusal
    kube.helm("3", "install", "spin", ROOT / "helm" / "spin")
    assert kube.get("deployment", "spin")["spec"]["template"]["spec"]["initContainers"][0]["restartPolicy"] == "Always"
    kube.helm("3", "uninstall", "spin")


def test_stopped_cluster_leaves_nothing(kube):
    """Runs last: nothing after it may need the cluster."""
    kube.stop()
    assert str(kube.state) not in pathlib.Path("/proc/mounts").read_text()
    assert not [path for path in pathlib.Path("/run/netns").glob("cni-*")] if pathlib.Path("/run/netns").exists() else True
    for entry in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            command = (entry / "cmdline").read_bytes().decode(errors="replace")
        except OSError:
            continue
        assert str(kube.state) not in command, command
    assert not list(pathlib.Path("/sys/fs/cgroup").rglob("kubepods*"))
