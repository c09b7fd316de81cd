# SPDX-FileCopyrightText: The Spin Authors
# SPDX-License-Identifier: Apache-2.0
"""Panels of the dashboard: tiles, graphs and tables. Each must say what it shows, in which unit, and what nothing means."""

DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}
GREEN, YELLOW, ORANGE, RED, BLUE = "green", "yellow", "orange", "red", "blue"


def _targets(queries, instant):
    targets = []
    for number, (legend, expr) in enumerate(queries):
        targets.append({"refId": chr(ord("A") + number), "datasource": DATASOURCE, "expr": " ".join(expr.split()), "legendFormat": legend,
                        "instant": instant, "range": not instant, "editorMode": "code", **({"format": "table"} if instant else {})})
    return targets


def _steps(thresholds):
    first, *rest = thresholds
    return {"mode": "absolute", "steps": [{"color": first, "value": None}] + [{"color": color, "value": value} for value, color in rest]}


def tile(title, unit, expr, description, nothing, size=(3, 5), thresholds=(BLUE,), decimals=1, mappings=()):
    """One number, now. No sparkline: in a tile of this size it would run through the number."""
    return {
        "type": "stat", "title": title, "description": description, "datasource": DATASOURCE, "size": size,
        "targets": _targets([(title, expr)], False),
        "fieldConfig": {"overrides": [], "defaults": {
            "unit": unit, "decimals": decimals, "noValue": nothing, "color": {"mode": "thresholds"}, "thresholds": _steps(thresholds),
            "mappings": list(mappings)}},
        "options": {"colorMode": "value", "graphMode": "none", "justifyMode": "auto", "orientation": "auto", "textMode": "value",
                    "wideLayout": True, "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False}},
    }


def override(name, **properties):
    """Properties of one series, by its legend."""
    ids = {"unit": "unit", "color": "color", "axis": "custom.axisPlacement", "dash": "custom.lineStyle", "fill": "custom.fillOpacity",
           "width": "custom.width", "align": "custom.align", "cell": "custom.cellOptions", "max": "max", "min": "min", "decimals": "decimals", "label": "custom.axisLabel",
           "line": "custom.lineWidth"}
    values = {}
    for key, value in properties.items():
        values[key] = {"mode": "fixed", "fixedColor": value} if key == "color" else {"fill": "dash", "dash": [8, 6]} if key == "dash" else value
    return {"matcher": {"id": "byName", "options": name}, "properties": [{"id": ids[key], "value": value} for key, value in values.items()]}


def graph(title, unit, queries, description, nothing="Nothing yet", size=(8, 8), stacked=False, overrides=(), decimals=None, least=0, most=None,
          limits=(), at_least=None, label=""):
    """Series over time. `limits` are lines drawn across: (value, color). The axis reaches `at_least` so far up, so that nothing looks like much. `label` says what
    a bare number counts."""
    custom = {"drawStyle": "line", "lineInterpolation": "linear", "lineWidth": 2 if not stacked else 1, "fillOpacity": 35 if stacked else 0, "gradientMode": "none",
              "showPoints": "never", "pointSize": 5, "spanNulls": False, "axisPlacement": "auto", "axisLabel": label, "scaleDistribution": {"type": "linear"},
              "stacking": {"mode": "normal" if stacked else "none", "group": "A"}, "thresholdsStyle": {"mode": "dashed" if limits else "off"},
              "hideFrom": {"legend": False, "tooltip": False, "viz": False}, "lineStyle": {"fill": "solid"}}
    if at_least is not None:
        custom["axisSoftMax"] = at_least
    defaults = {"unit": unit, "noValue": nothing, "color": {"mode": "palette-classic"}, "custom": custom, "mappings": [],
                "thresholds": _steps((GREEN, *((value, color) for value, color in limits)))}
    for key, value in (("decimals", decimals), ("min", least), ("max", most)):
        if value is not None:
            defaults[key] = value
    return {
        "type": "timeseries", "title": title, "description": description, "datasource": DATASOURCE, "size": size,
        "targets": _targets(queries, False), "fieldConfig": {"defaults": defaults, "overrides": list(overrides)},
        "options": {"legend": {"displayMode": "list", "placement": "bottom", "showLegend": True, "calcs": []},
                    "tooltip": {"mode": "multi", "sort": "desc"}},
    }


def table(title, queries, description, columns, nothing="Nothing yet", size=(12, 9), key=("layer",), sort=None):
    """Instant values side by side. `columns` are (field, title, unit, extra override properties); `key` are the labels that join the queries."""
    renames = {field: shown for field, shown, _, _ in columns}
    values = [f"Value #{chr(ord('A') + n)}" for n in range(len(queries))]
    hidden = {"Time": True, **{f"Time {n}": True for n in range(1, len(queries) + 1)}, **{value: True for value in values if value not in renames}}
    overrides = [override(shown, **({"unit": unit} if unit else {}), **more) for _, shown, unit, more in columns if unit or more]
    return {
        "type": "table", "title": title, "description": description, "datasource": DATASOURCE, "size": size,
        "targets": _targets(queries, True),
        "fieldConfig": {"overrides": overrides, "defaults": {
            "unit": "short", "noValue": "–", "color": {"mode": "thresholds"}, "thresholds": _steps((BLUE,)), "mappings": [],
            "custom": {"align": "auto", "cellOptions": {"type": "auto"}, "inspect": False, "filterable": False}}},
        "transformations": [
            *([{"id": "joinByField", "options": {"byField": key[0], "mode": "outer"}}] if len(key) == 1 and len(queries) > 1 else
              [{"id": "merge", "options": {}}]),
            {"id": "organize", "options": {"excludeByName": hidden, "renameByName": renames,
                                           "indexByName": {field: n for n, (field, *_) in enumerate(columns)}}}],
        "options": {"showHeader": True, "cellHeight": "sm", "footer": {"show": False, "reducer": ["sum"], "fields": ""},
                    **({"sortBy": [{"displayName": sort, "desc": True}]} if sort else {})},
        "emptyText": nothing,
    }
