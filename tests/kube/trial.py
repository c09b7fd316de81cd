#!/usr/bin/env python3
# SPDX-FileCopyrightText: The Spin Authors
# SPDX-License-Identifier: Apache-2.0
"""The cluster of the tests as one that stays up, to try the chart on: trial.py up|down. Not beside the tests: both want the same ports."""

import pathlib
import shutil
import subprocess
import sys

from cluster import OTHER_IMAGE, TOOLS, Kubernetes, make_images

STATE = TOOLS / "trial"


def up(kubernetes):
    if STATE.exists():
        sys.exit(f"{STATE} is there: the cluster is up already, or was not stopped; `make kube-down` ends it")
    make_images(kubernetes.images)
    kubernetes.start()
    kubernetes.kubectl("apply", "-f", pathlib.Path(__file__).parent / "crds.yaml")
    print(f"""A Kubernetes with one node, two pretended GPUs, and the image localhost/spin:0.1.0. `make kube-down` ends it.
  export KUBECONFIG={STATE}/kubeconfig PATH={TOOLS}/tools:{TOOLS}/bin:$PATH
  helm4 install spin helm/spin --set image.repository=localhost/spin --wait""")


def down(kubernetes):
    kubernetes.parts = ["node.sh", "controllers.sh", "apiserver.sh"]
    kubernetes.stop()
    for folder in (kubernetes.state, kubernetes.images):
        shutil.rmtree(folder, ignore_errors=True)
    subprocess.run(["buildah", "rmi", OTHER_IMAGE], check=False, capture_output=True)


if __name__ == "__main__":
    {"up": up, "down": down}[sys.argv[1]](Kubernetes(STATE))
