"""Who owns what is said once, and what cannot work is told with its line and the way out."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from gateway.cli.settings import check
from gateway.config import ConfigError, parse

HERE = Path(__file__).parent
SERVERS = """
endpoints:
  gpu-1: {kind: triton, zone: onprem, grpc: "10.0.0.1:8001"}
  gpu-2: {kind: triton, zone: onprem, grpc: "10.0.0.2:8001"}
  away: {kind: kserve, zone: cloud, url: "https://models.example.com"}
  mine: {kind: triton, zone: onprem, embedded: true}
models:
  a: {served_by: [{endpoint: gpu-1}, {endpoint: away}]}
  b: {served_by: [{endpoint: gpu-2}]}
"""
CLUSTER = """cluster:
  self: east
  cert_file: east.pem
  key_file: east.key
  ca_file: ca.pem
  gateways:
    east: {url: "https://10.0.1.1:8443", owns: [gpu-1]}
    west: {url: "https://10.0.1.2:8443", owns: [gpu-2]}
"""
GOOD = SERVERS + CLUSTER


def changed(old: str, new: str) -> str:
    assert GOOD.count(old) == 1, old
    return GOOD.replace(old, new)


def problem(text: str) -> str:
    with pytest.raises(ConfigError) as caught:
        parse(text, "spillway.yaml")
    return str(caught.value)


def test_a_file_without_the_section_is_one_gateway_alone() -> None:
    assert parse(SERVERS).cluster is None


def test_owners_and_the_order_of_succession_are_as_written() -> None:
    cluster = parse(GOOD).cluster
    assert cluster is not None
    assert list(cluster.gateways) == ["east", "west"]
    assert [cluster.owner(e) for e in ("gpu-1", "gpu-2", "mine", "away")] == [
        "east", "west", None, None,
    ]  # fmt: skip


@pytest.mark.parametrize("case", yaml.safe_load((HERE / "refused_settings.yaml").read_text()))
def test_what_cannot_work_is_told_with_its_line(case: dict[str, Any]) -> None:
    found = problem(changed(case["old"], case["new"]))
    assert found.startswith(f"spillway.yaml:{case['line']}: {case['key']}"), found
    assert case["told"] in found


def test_check_says_who_owns_what(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "spillway.yaml"
    path.write_text(GOOD)
    assert check.run(argparse.Namespace(config=path, json=True, file_only=True)) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["owners"] == {"east": ["gpu-1"], "west": ["gpu-2"]}
    assert check.run(argparse.Namespace(config=path, json=False, file_only=True)) == 0
    said = capsys.readouterr().err
    assert "east owns: gpu-1 (this gateway)" in said
    assert "west owns: gpu-2" in said
