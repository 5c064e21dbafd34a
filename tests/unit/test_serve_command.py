"""`spillway serve`: what the command line says goes over the settings file."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.__main__ import main
from gateway.classify.scan_workers import process
from gateway.cli.serve import overridden
from gateway.config import ConfigError, Settings, parse

TEXT = """
endpoints: {far: {kind: openai, zone: cloud, url: "https://api.example.com/v1"}}
models: {m: {task: generate, served_by: [{endpoint: far}]}}
keys: {one: {key: "${SERVE_TEST_KEY}", tenant: one}}
"""


@pytest.fixture
def settings(monkeypatch: pytest.MonkeyPatch) -> Settings:
    monkeypatch.setenv("SERVE_TEST_KEY", "k" * 32)
    return parse(TEXT)


def test_what_is_not_said_stays(settings: Settings) -> None:
    assert overridden(settings, {"host": None, "http_port": None}) is settings


def test_ports_and_host_of_the_command_line_win(settings: Settings) -> None:
    found = overridden(settings, {"host": "::1", "http_port": 0, "grpc_port": None})
    assert (found.listen.host, found.listen.http_port) == ("::1", 0)
    assert found.listen.grpc_port == settings.listen.grpc_port
    assert found.keys == settings.keys


@pytest.mark.parametrize("change", [{"http_port": 65536}, {"http_port": -1}])
def test_a_bad_value_is_named(settings: Settings, change: dict[str, str | int | None]) -> None:
    with pytest.raises(ConfigError, match="http_port"):
        overridden(settings, change)


def test_without_keys_only_the_loopback_is_served(settings: Settings) -> None:
    with pytest.raises(ConfigError, match="loopback"):
        overridden(settings.model_copy(update={"keys": {}}), {"host": "0.0.0.0"})


def test_a_file_that_is_not_there_is_said_on_one_line(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["serve", "--config", str(tmp_path / "none.yaml")]) == 2
    assert process._ahead is None  # the scanner that was started ahead is gone, too
    said = capfd.readouterr().err
    assert "none.yaml" in said
    assert "Traceback" not in said
