"""What the shipped rules and dashboards ask Prometheus for."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import yaml

from tests.live import ROOT

RULES = ROOT / "deploy" / "prometheus" / "rules.yaml"
CONFIG = ROOT / "deploy" / "prometheus" / "prometheus.yaml"
DASHBOARDS = sorted((ROOT / "deploy" / "grafana" / "dashboards").glob("*.json"))

_SELECTOR = re.compile(r"\b((?:spillway|gen_ai|up)(?:_\w+)?)\b(?:\{([^}]*)\})?")
_MATCHER = re.compile(r'(\w+)\s*(=~|!~|!=|=)\s*"([^"]*)"')
_GROUPING = re.compile(r"\b(?:by|without|on|ignoring)\s*\(([^)]*)\)")
_VARIABLE = re.compile(r"\$(\w+)")


@dataclass(frozen=True, slots=True)
class Query:
    where: str
    expr: str
    legend: str = ""

    @property
    def selectors(self) -> list[tuple[str, list[tuple[str, str, str]]]]:
        """Each metric by its name, with its matchers: label, operator, value."""
        return [(name, _MATCHER.findall(inner)) for name, inner in _SELECTOR.findall(self._bare)]

    @property
    def grouped_by(self) -> set[str]:
        named = ",".join(_GROUPING.findall(self.expr)).split(",")
        return {label.strip() for label in named} - {""}

    @property
    def variables(self) -> set[str]:
        return set(_VARIABLE.findall(self.expr)) - {"__rate_interval"}

    @property
    def legend_labels(self) -> set[str]:
        return set(re.findall(r"\{\{(?:\s*\$labels\.)?\s*(\w+)\s*\}\}", self.legend))

    @property
    def settled(self) -> str:
        """With everything in its place that Grafana would put there."""
        return _VARIABLE.sub(".*", self.expr.replace("$__rate_interval", "5m"))

    @property
    def _bare(self) -> str:
        """Without the labels of groupings, which are no metrics."""
        return _GROUPING.sub("", self.expr)


def alerts() -> list[dict[str, Any]]:
    return [
        rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]
    ]


def of_rules() -> Iterator[Query]:
    for rule in alerts():
        said = re.sub(r"\{\{\s*\$value\s*\}\}", "", rule["annotations"]["summary"])
        said = re.sub(r"\{\{\s*\$labels\.(\w+)\s*\}\}", r"{{\1}}", said)
        yield Query(rule["alert"], rule["expr"], said)


def dashboards() -> dict[str, Any]:
    return {path.stem: json.loads(path.read_text()) for path in DASHBOARDS}


def of_dashboards() -> Iterator[Query]:
    for name, board in dashboards().items():
        for panel in board["panels"]:
            for target in panel.get("targets", ()):
                where = f"{name}: {panel['title']}"
                yield Query(where, target["expr"], target["legendFormat"])


QUERIES = [*of_rules(), *of_dashboards()]
