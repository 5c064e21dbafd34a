"""Every rule and every panel asks for what a running gateway really tells."""

from __future__ import annotations

import json
import re
import subprocess
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from shutil import which
from threading import Thread
from typing import Any

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from gateway.accounting.metrics import Metrics
from gateway.core.types import EVERYWHERE, Outcome, Sensitivity
from gateway.demo.cloud.process import SimulatedCloud
from tests.live import ROOT, LiveGateway, serving, settings, wait_until
from tests.sight.queries import CONFIG, QUERIES, RULES, Query, alerts, dashboards, of_dashboards

CASES = Path(__file__).with_name("alerts.yaml")
PROMETHEUS_OWN = {"up": {"job", "instance"}}

ELSEWHERE = {
    "spillway_cluster_forwards_total": "tests/scenarios/test_cluster.py",
    "spillway_cluster_owner": "tests/scenarios/test_cluster.py",
    "spillway_cluster_peer_up": "tests/scenarios/test_cluster.py",
    "spillway_gpu_contention_ratio": "tests/unit/test_endpoint_queues.py",
    "spillway_batch_error_ratio": "tests/unit/scheduling/test_batches.py",
}
"""Metrics that one gateway at rest has no series of, and where they move."""

GPU = 'gpu_uuid="GPU-0"'
FIGURES = "\n".join(
    (
        f"nv_gpu_utilization{{{GPU}}} 0.5",
        f"nv_gpu_memory_used_bytes{{{GPU}}} 5",
        f"nv_gpu_memory_total_bytes{{{GPU}}} 10",
        f"nv_gpu_power_usage{{{GPU}}} 300",
        f"nv_gpu_power_limit{{{GPU}}} 700",
        f"nv_energy_consumption{{{GPU}}} 1000",
        'nv_cache_num_hits_per_model{model="m",version="1"} 3',
        'nv_cache_num_misses_per_model{model="m",version="1"} 1',
        "",
    )
)
"""What a Triton on a machine with a GPU and a response cache tells beside the rest, in the words of
its documentation: this machine has neither."""


class _Figures(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("content-length", str(len(FIGURES)))
        self.end_headers()
        self.wfile.write(FIGURES.encode())

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture(scope="module")
def figures_url() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Figures)
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/metrics"
    server.shutdown()
    server.server_close()
    thread.join(10)


@dataclass
class Told:
    """What a gateway told after it had been called in many ways."""

    types: set[str]
    labels: dict[str, set[str]]  # series name -> labels
    values: dict[tuple[str, str], set[str]]  # series name and label -> values


@pytest.fixture(scope="module")
def told(
    cloud: SimulatedCloud, figures_url: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Told]:
    scratch = tmp_path_factory.mktemp("sight")
    document = settings(cloud, scratch, routing={"policy": "static_split"})
    document["endpoints"]["gone"] = {
        "kind": "triton", "zone": "onprem", "grpc": "127.0.0.1:1", "metrics_url": figures_url,
    }  # fmt: skip
    document["models"]["away"] = {"served_by": [{"endpoint": "gone"}]}
    with serving(document, scratch) as gateway:
        drive(gateway)
        wait_until(lambda: "spillway_triton_gpu_utilization_ratio{" in gateway.metrics(), 10.0)
        yield understood(gateway.metrics())


def drive(gateway: LiveGateway) -> None:
    """Clear and restricted, streamed and whole, with tensors and with words, and refused."""
    card = "my card is 4111 1111 1111 1111"

    def chat(text: str, **more: Any) -> None:
        said = {"model": "scribe", "max_tokens": 4, "messages": [{"role": "user", "content": text}]}
        assert gateway.client.post("/v1/chat/completions", json={**said, **more}).is_success

    for text in ("hello", card):
        chat(text)
        chat(text, stream=True)
    tensor = {"name": "text", "datatype": "BYTES", "shape": [1, 1], "data": [card]}
    for model in ("minilm", "away", "nobody"):
        gateway.client.post(f"/v2/models/{model}/infer", json={"inputs": [tensor]})


def understood(text: str) -> Told:
    types, labels, values = set(), {}, {}  # type: ignore[var-annotated] # filled in below
    for family in text_string_to_metric_families(text):
        types.add(family.name)
        for sample in family.samples:
            labels.setdefault(sample.name, set()).update(sample.labels)
            for label, value in sample.labels.items():
                values.setdefault((sample.name, label), set()).add(value)
    return Told(types, labels, values)


@pytest.mark.parametrize("query", QUERIES, ids=lambda q: q.where)
def test_every_metric_and_label_of_a_query_is_told(query: Query, told: Told) -> None:
    assert query.selectors
    for name, matchers in query.selectors:
        if name in PROMETHEUS_OWN:
            known = PROMETHEUS_OWN[name]
        else:
            family = re.sub(r"_(total|bucket|count|sum)$", "", name)
            assert family in told.types, f"there is no {name}"
            known = told.labels.get(name) or DECLARED[family]
        asked = {label for label, _, _ in matchers} | query.grouped_by | query.legend_labels
        unknown = asked - known - {"instance"}
        others = {label for n, _ in query.selectors for label in told.labels.get(n, ())}
        assert not unknown - others, f"{name} has no {unknown}"
        assert {label for label, _, _ in matchers} <= known, name


def test_metrics_that_a_query_needs_have_series_or_it_is_known_where_they_have(told: Told) -> None:
    asked = {name for query in QUERIES for name, _ in query.selectors} - set(PROMETHEUS_OWN)
    assert asked - set(told.labels) <= set(ELSEWHERE) | NEVER_AT_PEACE
    for where in ELSEWHERE.values():
        assert (ROOT / where).exists()


DECLARED = {
    metric._name: set(metric._labelnames)
    for metric in vars(Metrics()).values()
    if hasattr(metric, "_labelnames")
}
NEVER_AT_PEACE = {
    "spillway_endpoint_ejections_total",
    "spillway_endpoint_returns_total",
    "spillway_endpoint_stalls_total",
    "spillway_gpu_turns",
    "spillway_pseudonym_doubts_total",
    "spillway_pseudonymised_total",
    "spillway_recovery_waits_total",
    "spillway_unexpected_errors_total",
}
"""Metrics with labels that have series only once something has gone wrong, or is allowed."""


CLOSED = {
    "zone": {z.name for z in EVERYWHERE} | {"none"},
    "sensitivity": {s.value for s in Sensitivity} | {"unknown"},
    "outcome": {o.value for o in Outcome},
    "job": {"spillway"},
}


@pytest.mark.parametrize("query", QUERIES, ids=lambda q: q.where)
def test_every_value_that_a_query_asks_for_can_occur(query: Query, told: Told) -> None:
    reasons = (ROOT / "docs" / "reference" / "reasons.md").read_text()
    for name, matchers in query.selectors:
        for label, operator, value in matchers:
            if operator != "=":
                continue
            if label == "reason":
                assert f"`{value}`" in reasons
            elif label == "le":
                assert value in told.values[name, "le"]
            else:
                assert value in CLOSED[label]


@pytest.mark.parametrize("query", QUERIES, ids=lambda q: q.where)
def test_what_a_legend_names_is_what_the_query_groups_by(query: Query) -> None:
    own = set().union(*(PROMETHEUS_OWN.get(name, set()) for name, _ in query.selectors))
    assert query.legend_labels <= query.grouped_by | own


# --- the dashboards: there is no Grafana to try them in, so their form is checked here ---


@pytest.mark.parametrize("name", dashboards())
def test_a_dashboard_is_whole(name: str) -> None:
    board = dashboards()[name]
    assert board["uid"] == f"spillway-{name}"
    panels = board["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    shown = [panel for panel in panels if panel["type"] != "row"]
    assert {panel["type"] for panel in shown} <= {"timeseries", "stat"}
    for panel in shown:
        assert panel["title"]
        assert panel["fieldConfig"]["defaults"]["unit"]
        assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
        assert len({target["refId"] for target in panel["targets"]}) == len(panel["targets"])


@pytest.mark.parametrize("name", dashboards())
def test_no_two_panels_lie_on_each_other(name: str) -> None:
    covered: Counter[tuple[int, int]] = Counter()
    for panel in dashboards()[name]["panels"]:
        at = panel["gridPos"]
        assert at["x"] + at["w"] <= 24, panel["title"]
        covered.update((at["x"] + x, at["y"] + y) for x in range(at["w"]) for y in range(at["h"]))
    assert max(covered.values()) == 1


@pytest.mark.parametrize("name", dashboards())
def test_every_variable_is_defined_and_used(name: str) -> None:
    board = dashboards()[name]
    defined = {one["name"] for one in board["templating"]["list"]}
    used = {v for q in of_dashboards() if q.where.startswith(f"{name}:") for v in q.variables}
    assert defined == used | {"datasource"}


def test_dashboards_reach_each_other_and_no_one_else() -> None:
    for board in dashboards().values():
        assert "http" not in json.dumps(board)
        assert board["tags"] == ["spillway"]


# --- by Prometheus itself ---


@pytest.fixture
def promtool() -> str:
    found = which("promtool")
    if found is None:
        pytest.skip("promtool is not installed: Debian has it in the package prometheus")
    return found


def check(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_prometheus_takes_its_settings_and_rules(promtool: str) -> None:
    check(promtool, "check", "config", str(CONFIG))


def test_prometheus_can_read_every_query_of_the_dashboards(promtool: str, tmp_path: Path) -> None:
    rules = [{"record": f"query:{n}", "expr": q.settled} for n, q in enumerate(of_dashboards())]
    file = tmp_path / "queries.yaml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "dashboards", "rules": rules}]}))
    check(promtool, "check", "rules", str(file))


def test_prometheus_reads_what_a_gateway_tells(promtool: str, gateway: LiveGateway) -> None:
    done = subprocess.run(
        [promtool, "check", "metrics"],
        input=gateway.metrics(), capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode in (0, 3), done.stderr  # 3: lint alone
    complaints = [line for line in done.stderr.splitlines() if "_created" not in line]
    assert complaints == []


def test_every_alert_fires_when_it_should_and_not_before(promtool: str, tmp_path: Path) -> None:
    file = tmp_path / "alerts.yaml"
    file.write_text(CASES.read_text().replace("RULES", str(RULES)))
    check(promtool, "test", "rules", str(file))


def test_every_alert_has_a_case_in_which_it_fires_and_one_in_which_it_does_not() -> None:
    fires: dict[str, set[bool]] = {}
    for case in yaml.safe_load(CASES.read_text())["tests"]:
        for one in case["alert_rule_test"]:
            fires.setdefault(one["alertname"], set()).add(bool(one["exp_alerts"]))
    assert fires == {rule["alert"]: {True, False} for rule in alerts()}


def test_every_alert_says_what_to_do() -> None:
    page = (ROOT / "docs" / "how-to" / "monitor.md").read_text()
    for rule in alerts():
        assert f"`{rule['alert']}`" in page
        assert rule["labels"]["severity"] in ("page", "ticket")
