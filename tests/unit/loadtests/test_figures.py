"""What is made of a run: quantiles, processor time, tables and the report."""

from __future__ import annotations

import json
import math
import os
import random
import re
import subprocess
import sys
import time
from html.parser import HTMLParser
from pathlib import Path

import pytest

from loadtests import cpu
from loadtests.load import html
from loadtests.load.histogram import Histogram
from loadtests.load.result import Result, Second
from loadtests.peers import table
from loadtests.peers.rounds import Measured


def _filled(values: list[float]) -> Histogram:
    histogram = Histogram()
    for value in values:
        histogram.record(value)
    return histogram


def test_quantiles_are_at_most_a_bucket_too_large() -> None:
    chance = random.Random(3)
    values = sorted(chance.lognormvariate(-6, 1.5) for _ in range(20_000))
    histogram = _filled(values)
    for q in (0.01, 0.5, 0.9, 0.99, 0.999, 1.0):
        true = values[max(1, math.ceil(q * len(values))) - 1]
        assert true <= histogram.quantile_s(q) * 1.0000001
        assert histogram.quantile_s(q) <= true * 1.006
    assert histogram.max_s == values[-1]
    assert histogram.mean_s == pytest.approx(sum(values) / len(values))
    assert list(histogram.cdf())[-1][1] == 1.0


def test_histograms_add_up() -> None:
    both, one, other = Histogram(), _filled([0.1] * 30), _filled([0.2] * 70)
    both.add(one)
    both.add(other)
    assert len(both) == 100
    assert both.quantile_s(0.3) == pytest.approx(0.1, rel=0.006)
    assert both.quantile_s(0.31) == pytest.approx(0.2, rel=0.006)


def test_an_empty_histogram_says_nothing_and_does_not_fail() -> None:
    assert Histogram().summary_ms()["p99"] == 0.0
    assert list(Histogram().cdf()) == []


_BURNS = """
import subprocess, sys, time
child = "import time\\nwhile time.process_time() < 0.4: pass"
subprocess.run([sys.executable, "-c", child])
alive = subprocess.Popen([sys.executable, "-c", child + "\\ntime.sleep(60)"])
while time.process_time() < 0.4: pass
print("ready", flush=True)
sys.stdin.read()
alive.kill()
"""


def test_processor_time_is_of_children_too_living_and_dead() -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", _BURNS], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        assert process.stdout is not None
        process.stdout.readline()
        until_s = time.monotonic() + 30
        while cpu.used_s(process.pid) < 1.1 and time.monotonic() < until_s:
            time.sleep(0.05)
        assert cpu.used_s(process.pid) >= 1.1  # three times 0.4, by ticks
    finally:
        process.communicate()
    with pytest.raises(OSError, match=str(process.pid)):
        cpu.used_s(process.pid)
    assert cpu.used_s(os.getpid()) > 0


def _result(label: str = "<gateway> & co", load: str = "100/s") -> Result:
    result = Result(label, load, window_s=2.0)
    result.latency = _filled([0.001 * n for n in range(1, 1001)])
    result.sent, result.answered, result.answered_in_window = 1003, 1000, 998
    result.failed.update({"503": 3})
    result.seconds = [Second(500, 1), Second(498, 2)]
    result.seconds[0].routes.update({"cloud": 200, "onprem": 300})
    result.seconds[1].routes.update({"cloud": 498})
    return result


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[str] = []
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)
        if tag not in ("meta", "!doctype"):
            self.open.append(tag)
        self.addresses += [str(v) for name, v in attrs if name in ("src", "href", "action")]

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_report_is_one_whole_file_that_asks_nobody(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    results = [_result(), _result(load="200/s"), Result("nothing came", "1/s", 1.0)]
    html.write(path, [result.as_json() for result in results])
    text = path.read_text()
    reader = _Reader()
    reader.feed(text)
    assert reader.open == []
    assert reader.addresses == []
    assert not re.search(r"https?://|url\(|@import|<script", text)
    assert reader.seen.count("polyline") >= 4  # two curves with calls, two lines of throughput
    assert "second 0: onprem 300" in text
    assert "second 1: failed 2" in text
    assert "<gateway>" not in text
    assert "&lt;gateway&gt; &amp; co, 200/s" in text
    assert "503: 3" in text


def test_what_was_added_is_of_the_same_round_and_json_has_every_peer() -> None:
    direct, gateway = Measured(), Measured()
    direct.figures = {"p50_ms": [1.0, 5.0, 1.0], "cpu_ms": [0.01] * 3}
    gateway.figures = {"p50_ms": [2.0, 6.5, 9.0], "cpu_ms": [0.1, 0.2, 0.3], "p99_ms": [math.inf]}
    gateway.failed = {"open: 503": 4}
    measured = {table.DIRECT: direct, "spillway_inspected": gateway}
    found = table.as_json(measured, {"portkey": "it needs node and npm"})
    assert found["spillway_inspected"]["added_p50_ms"] == 1.5  # of 1.0, 1.5 and 8.0
    assert found["spillway_inspected"]["cpu_ms"] == 0.2
    assert found["spillway_inspected"]["p99_ms"] is None
    assert found["spillway_inspected"]["failed"] == {"open: 503": 4}
    assert found["portkey"] == {"absent": "it needs node and npm"}
    json.dumps(found, allow_nan=False)
    text = table.as_text(measured, {"portkey": "it needs node and npm"}, {})
    assert "portkey: absent: it needs node and npm" in text
    assert "open: 503: 4" in text
