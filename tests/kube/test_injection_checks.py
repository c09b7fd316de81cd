# SPDX-FileCopyrightText: The Spin Authors
# SPDX-License-Identifier: Apache-2.0
"""What who labels a pod hears where injection cannot do what is asked: a real API server, no nodes."""

import json

import pytest
from cluster import ROOT, eventually

INJECT = {"spin/inject": "true"}
POD_SPEC = {"containers": [{"name": "engine", "image": "x"}], "restartPolicy": "Always"}


def pod(labels, annotations):
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x", "labels": labels, "annotations": annotations}, "spec": POD_SPEC}


def deployment(labels, annotations):
    template = {"metadata": {"labels": {**labels, "app": "x"}, "annotations": annotations}, "spec": POD_SPEC}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "x"}, "spec": {"selector": {"matchLabels": {"app": "x"}}, "template": template}}


def job(labels, annotations):
    template = {"metadata": {"labels": labels, "annotations": annotations}, "spec": {**POD_SPEC, "restartPolicy": "Never"}}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "x"}, "spec": {"template": template}}


def cron_job(labels, annotations):
    return {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "x"}, "spec": {"schedule": "@daily", "jobTemplate": {"spec": job(labels, annotations)["spec"]}}}


WRONG = [({"spin/inject": "yes"}, {}, 'label spin/inject is "yes"; it must be "true" or "false"'),
         ({"spin/injection": "true"}, {}, "there is no label spin/injection; the one that injects is spin/inject"),
         (INJECT, {"spin/sparsty": "0.5"}, "there is no annotation spin/sparsty; there are spin/engine-container, spin/sparsity"),
         (INJECT, {"spin/engine-container": "vllm"}, 'annotation spin/engine-container is "vllm", but the containers are engine'),
         (INJECT, {"spin/slab-size": "2GB"}, 'annotation spin/slab-size is "2GB"; it must be a whole number of Mi or Gi'),
         *((INJECT, {"spin/sparsity": value}, f'annotation spin/sparsity is "{value}"; it must be a number from 0 to below 1') for value in ("1", "1.5", "-0.5", "much")),
         (INJECT, {"spin/policy": "a b"}, 'annotation spin/policy is "a b"; it must be the name of a ConfigMap')]
RIGHT = [({}, {}), (INJECT, {}), ({"spin/inject": "false"}, {}), (INJECT, {"spin/sparsity": "0"}), (INJECT, {"spin/sparsity": ".25", "spin/slab-size": "727Mi", "spin/policy": "v4-policy"}),
         (INJECT, {"spin/engine-container": "engine", "spin/policy": ""})]


def create(kube, manifest):
    return kube.run("kubectl", "-n", "probe", "create", "--dry-run=server", "-o", "yaml", "-f", "-", stdin=json.dumps(manifest), check=False)


@pytest.fixture
def installed(bare_api):
    def do(*values):
        kube = bare_api("")
        kube.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "probe", "labels": {"spin/injection": "enabled"}}})
        kube.helm("4", "install", "spin", ROOT / "helm" / "spin", "--set", ",".join(("injection.enabled=true", "reference.enabled=false", *values)))
        eventually(lambda: "spin/injected" in create(kube, pod(INJECT, {})).stdout)
        eventually(lambda: "it must be" in create(kube, pod({"spin/inject": "yes"}, {})).stderr)
        return kube
    return do


def test_what_is_wrong_is_said_and_nothing_else(installed):
    kube = installed()
    for kind in (pod, deployment, job, cron_job):
        for labels, annotations, words in WRONG:
            answer = create(kube, kind(labels, annotations))
            assert answer.returncode == 0 and words in answer.stderr, (kind.__name__, annotations, answer.stderr)
        for labels, annotations in RIGHT:
            answer = create(kube, kind(labels, annotations))
            assert answer.returncode == 0 and not answer.stderr, (kind.__name__, annotations, answer.stderr)


def test_what_is_wrong_is_refused_where_a_pod_without_sidecar_may_not_start(installed):
    kube = installed("injection.failurePolicy=Fail")
    for labels, annotations, words in WRONG:
        answer = create(kube, deployment(labels, annotations))
        assert answer.returncode != 0 and words in answer.stderr
    assert create(kube, deployment(INJECT, {})).returncode == 0


def test_pod_that_asked_and_gets_no_sidecar_is_told(installed):
    kube = installed()
    kube.kubectl("delete", "mutatingadmissionpolicybindings", "--all")
    eventually(lambda: "gets no sidecar: its policy default/spin failed, or is not in force yet" in create(kube, pod(INJECT, {})).stderr)
    assert not create(kube, deployment(INJECT, {})).stderr


def test_workload_that_was_there_before_can_still_be_touched(installed):
    kube = installed("injection.failurePolicy=Fail")
    kube.kubectl("label", "namespace", "probe", "spin/injection-")
    wrong = deployment(INJECT, {"spin/sparsty": "0.5"})
    kube.apply(wrong, "probe")
    kube.kubectl("label", "namespace", "probe", "spin/injection=enabled")
    eventually(lambda: create(kube, {**wrong, "metadata": {"name": "y"}}).returncode != 0)
    kube.kubectl("-n", "probe", "annotate", "deployment", "x", "note=touched")
    assert "there is no annotation spin/sparsty" in kube.run("kubectl", "-n", "probe", "set", "image", "deployment/x", "engine=y", check=False).stderr
