# SPDX-FileCopyrightText: The Spin Authors
# SPDX-License-Identifier: Apache-2.0
"""The tools that the other tests stand on are there and speak the contract of this checkout."""

import re
import subprocess


def test_stubs_know_every_rpc_of_the_contract(pytestconfig):
    from spin.v1 import service_pb2

    contract = (pytestconfig.rootpath / "../../proto/spin/v1/service.proto").read_text()
    declared = re.findall(r"^  rpc (\w+)\(", contract, re.MULTILINE)
    service = service_pb2.DESCRIPTOR.services_by_name["SpinService"]
    assert [method.name for method in service.methods] == declared


def test_promtool_runs(promtool):
    assert "promtool, version" in subprocess.run(
        [promtool, "--version"], capture_output=True, text=True, check=True
    ).stdout
