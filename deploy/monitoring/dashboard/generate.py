#!/usr/bin/env python3
# SPDX-FileCopyrightText: The Spin Authors
# SPDX-License-Identifier: Apache-2.0
"""Writes the Grafana dashboard. usage: generate.py OUT.json

Classic JSON for Grafana 10.4 and later, to be provisioned: no inputs, no fixed datasource. Panels are in rows.py; this
file is the grid, the variables and what all panels have in common.
"""

import json
import sys

from panels import DATASOURCE
from rows import HEADER, ROWS

WIDTH = 24


def variable(name, label, query, after):
    """A chained variable: `after` narrows its values."""
    return {
        "name": name, "label": label, "type": "query", "datasource": DATASOURCE, "refresh": 2, "sort": 1,
        "multi": True, "includeAll": True, "allValue": ".*", "current": {}, "options": [],
        "query": {"query": f"label_values({query}, {after})", "refId": name}, "definition": f"label_values({query}, {after})",
    }


VARIABLES = [
    {"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus", "current": {}, "options": [],
     "refresh": 1, "multi": False, "includeAll": False, "regex": ""},
    variable("namespace", "Namespace", "spin_build_info", "namespace"),
    variable("pod", "Pod", 'spin_build_info{namespace=~"$namespace"}', "pod"),
    variable("model", "Model", 'spin_steps_total{namespace=~"$namespace", pod=~"$pod"}', "model_name"),
    {"name": "scan_ns", "label": "Scan of a block, ns", "type": "textbox", "query": "2.2", "current": {"text": "2.2", "value": "2.2"},
     "options": [{"selected": True, "text": "2.2", "value": "2.2"}],
     "description": "What the indexer takes for one block of 64 slots in one layer; 2.2 ns is an H200 with 64 heads of 128 in FP8. Estimates of time saved rest on it."},
]


def place(panels, y):
    """Puts panels left to right, line by line; returns where the next line begins."""
    x, height = 0, 0
    for panel in panels:
        width, tall = panel.pop("size")
        if x + width > WIDTH:
            x, y, height = 0, y + height, 0
        panel["gridPos"] = {"x": x, "y": y, "w": width, "h": tall}
        x, height = x + width, max(height, tall)
    return y + height


def dashboard():
    panels = list(HEADER)
    y = place(panels, 0)
    for title, collapsed, members in ROWS:
        row = {"type": "row", "title": title, "collapsed": collapsed, "gridPos": {"x": 0, "y": y, "w": WIDTH, "h": 1}, "panels": []}
        after = place(members, y + 1)
        panels.append(row)
        if collapsed:
            row["panels"] = members
            y += 1
        else:
            panels += members
            y = after
    number = 0
    for panel in panels:
        for each in [panel, *panel.get("panels", [])]:
            number += 1
            each["id"] = number
    return {
        "uid": "spin", "title": "Spin", "tags": ["spin", "inference"], "schemaVersion": 39, "version": 1, "editable": True,
        "description": "Is Spin on, does it pay, what does it cost in quality.",
        "graphTooltip": 1, "refresh": "30s", "time": {"from": "now-1h", "to": "now"}, "timezone": "", "timepicker": {},
        "annotations": {"list": [{
            "name": "Restarts of spind", "datasource": DATASOURCE, "enable": True, "hide": False, "iconColor": "orange",
            "expr": 'changes(process_start_time_seconds{namespace=~"$namespace", pod=~"$pod"}[2m]) > 0 and on (job, instance) spin_build_info',
            "titleFormat": "spind restarted", "textFormat": "{{pod}}", "step": "60s"}]},
        "links": [{"type": "dashboards", "tags": ["inference"], "title": "Inference", "asDropdown": True, "includeVars": True, "keepTime": True,
                   "icon": "external link", "targetBlank": False, "tooltip": "", "url": ""}],
        "templating": {"list": VARIABLES}, "panels": panels,
    }


if __name__ == "__main__":
    with open(sys.argv[1], "w", encoding="utf-8") as out:
        json.dump(dashboard(), out, indent=1, ensure_ascii=False)
        out.write("\n")
