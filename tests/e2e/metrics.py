# SPDX-FileCopyrightText: The Spin Authors
# SPDX-License-Identifier: Apache-2.0
"""Reads what /metrics says."""

import dataclasses
import re

_SAMPLE = re.compile(r'^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? (\S+)$')
_LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)"')


@dataclasses.dataclass(frozen=True)
class Series:
    name: str
    labels: frozenset  # of (name, value)

    def has(self, labels: dict) -> bool:
        return self.labels.issuperset(labels.items())


class Metrics:
    """One scrape in the text format."""

    def __init__(self, text: str):
        self.text = text
        self.samples: dict[Series, float] = {}
        self.types: dict[str, str] = {}
        for line in text.splitlines():
            if line.startswith("# TYPE "):
                _, _, name, kind = line.split()
                self.types[name] = kind
            elif line and not line.startswith("#"):
                self._take(line)

    def _take(self, line: str):
        name, labels, value = _SAMPLE.match(line).groups()
        series = Series(name, frozenset(_LABEL.findall(labels or "")))
        assert series not in self.samples, f"{line}: twice in one scrape"
        self.samples[series] = float(value)

    def all(self, name: str, **labels) -> dict[Series, float]:
        return {s: v for s, v in self.samples.items() if s.name == name and s.has(labels)}

    def value(self, name: str, **labels) -> float:
        """The sum over the series that match; there must be one."""
        found = self.all(name, **labels)
        assert found, f"no series {name} {labels}"
        return sum(found.values())

    @property
    def series(self) -> frozenset:
        return frozenset(self.samples)

    def counters(self) -> dict[Series, float]:
        """Everything that may never go down: counters, and the parts of histograms."""
        def only_grows(series: Series) -> bool:
            base = re.sub(r"_(bucket|sum|count)$", "", series.name)
            return self.types.get(series.name) == "counter" or self.types.get(base) == "histogram"

        return {s: v for s, v in self.samples.items() if only_grows(s)}
