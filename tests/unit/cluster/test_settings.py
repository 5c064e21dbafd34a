"""Who owns what is said once, and what cannot work is told with its line and the way out."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import pytest

from gateway.cli.settings import check
from gateway.config import ConfigError, parse

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


def changed(*changes: tuple[str, str]) -> str:
    text = GOOD
    for old, new in changes:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return text


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


@pytest.mark.parametrize(
    ("text", "line", "key", "told"),
    [
        pytest.param(
            changed(("self: east", "self: north")), 11, "cluster.self",
            "no gateway 'north'; there are: east, west", id="self-is-unknown",
        ),
        pytest.param(
            changed(("owns: [gpu-2]", "owns: [gpu-2, gpu-3]")), 17,
            "cluster.gateways.west.owns.1", "no endpoint 'gpu-3'", id="unknown-endpoint",
        ),
        pytest.param(
            changed(("owns: [gpu-2]", "owns: []")), 4, "endpoints.gpu-2",
            "no gateway owns it; name it under cluster.gateways.NAME.owns", id="no-owner",
        ),
        pytest.param(
            changed(("owns: [gpu-2]", "owns: [gpu-2, gpu-1]")), 17,
            "cluster.gateways.west.owns.1", "'gpu-1' is owned by east already", id="two-owners",
        ),
        pytest.param(
            changed(("owns: [gpu-2]", "owns: [gpu-2, away]")), 17,
            "cluster.gateways.west.owns.1", "every gateway has its own door", id="a-cloud",
        ),
        pytest.param(
            changed(("owns: [gpu-2]", "owns: [gpu-2, mine]")), 17,
            "cluster.gateways.west.owns.1", "'mine' is embedded", id="an-embedded-server",
        ),
        pytest.param(
            changed(("{endpoint: gpu-2}", "{endpoint: gpu-2}, {endpoint: gpu-1}")), 9,
            "models.b.served_by.1.endpoint", "so give them one owner", id="a-model-of-two-owners",
        ),
        pytest.param(
            changed(("{endpoint: gpu-2}", "{endpoint: gpu-2}, {endpoint: mine}")), 9,
            "models.b.served_by.1.endpoint", "so give them one owner", id="shared-and-embedded",
        ),
        pytest.param(
            changed(("https://10.0.1.2:8443", "http://10.0.1.2:8443")), 17,
            "cluster.gateways.west.url", "must be https://", id="plain-http",
        ),
        pytest.param(
            changed(("https://10.0.1.2:8443", "https://10.0.1.2:8443/x")), 17,
            "cluster.gateways.west.url", "without a path", id="with-a-path",
        ),
        pytest.param(
            changed(("https://10.0.1.2:8443", "https://gateway.example.com:8443")), 17,
            "cluster.gateways.west.url", "say i_know: true", id="a-public-name",
        ),
        pytest.param(
            changed(("  self: east", "  self: east\n  probe_s: 2")), 10, "cluster.silence_s",
            "one lost probe would take a gateway out", id="impatient",
        ),
        pytest.param(
            changed(("    west:", "    West_1:")), 17, "cluster.gateways.West_1", "pattern",
            id="a-name-that-no-certificate-can-have",
        ),
    ],
)  # fmt: skip
def test_what_cannot_work_is_told_with_its_line(text: str, line: int, key: str, told: str) -> None:
    found = problem(text)
    assert found.startswith(f"spillway.yaml:{line}: {key}"), found
    assert told in found


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
