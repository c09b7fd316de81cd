#!/usr/bin/env python3
# SPDX-FileCopyrightText: The Spin Authors
# SPDX-License-Identifier: Apache-2.0
"""Draws the dashboard under the scenario: render.py OUT_FOLDER [SECONDS]. `make dashboard` installs what it needs."""

import functools
import http.server
import json
import pathlib
import subprocess
import sys
import tempfile
import threading
import urllib.parse

from scenario import ROOT, SCRAPE_SECONDS, SECONDS, running
from standin import SCAN_SECONDS

RENDERER = ROOT / "tests" / "dashboard" / "renderer"
DASHBOARD = ROOT / "deploy" / "monitoring" / "spin-dashboard.json"
NOTE = ("Drawn with Grafana's panel components (@grafana/ui), not by a Grafana server. spind and Prometheus are real; "
        "the engines are stand-ins whose latency follows the blocks they really scored.")
PICTURES = {"dashboard-dark": ("dark", 1600), "dashboard-light": ("light", 1600), "dashboard-narrow": ("dark", 480)}


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


def serve(folder):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=folder))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.server_port}"


def take_pictures(prometheus_url, begin, end, out, names=PICTURES):
    site = tempfile.mkdtemp(prefix="spin-dashboard-")
    subprocess.run(["cp", "-r", f"{RENDERER}/dist/.", site], check=True)
    pathlib.Path(site, "dashboard.json").write_text(DASHBOARD.read_text())
    base, jobs = serve(site), []
    for name in names:
        theme, width = PICTURES[name]
        query = {"dashboard": "dashboard.json", "prometheus": prometheus_url, "from": int(begin), "to": int(end), "scrape": SCRAPE_SECONDS, "theme": theme,
                 "width": width, "note": NOTE, "var-namespace": ".*", "var-pod": ".*", "var-model": ".*", "var-scan_ns": int(SCAN_SECONDS * 1e9)}
        jobs.append({"url": f"{base}/index.html?{urllib.parse.urlencode(query)}", "out": str(pathlib.Path(out).resolve() / f"{name}.png"), "width": width, **({"most": 3400} if width < 768 else {})})
    jobs_file = pathlib.Path(site, "jobs.json")
    jobs_file.write_text(json.dumps(jobs))
    result = subprocess.run(["node", "shoot.mjs", jobs_file], cwd=RENDERER, capture_output=True, text=True)
    if result.returncode != 0:
        raise RuntimeError(result.stderr)
    return [json.loads(line) for line in result.stdout.splitlines()]


if __name__ == "__main__":
    seconds = int(sys.argv[2]) if len(sys.argv) > 2 else SECONDS
    with tempfile.TemporaryDirectory(prefix="spin-prometheus-") as folder, running(folder, seconds) as (prometheus, begin, end):
        for report in take_pictures(prometheus.url, begin, end, sys.argv[1]):
            print(report)
