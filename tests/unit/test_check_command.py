"""`spillway check` refuses what `spillway serve` refuses, before anything listens (O1)."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from gateway.__main__ import main
from gateway.cli import console as commands_console

GPU = {"kind": "triton", "zone": "onprem", "url": "http://127.0.0.1:9", "grpc": "127.0.0.1:9"}


def document(folder: Path) -> dict[str, Any]:
    return {
        "audit": {"directory": str(folder / "audit")},
        "classify": {"names": "off"},
        "endpoints": {"gpu": dict(GPU)},
        "models": {"m": {"tensors": "clear", "served_by": [{"endpoint": "gpu"}]}},
    }


def checked(folder: Path, settings: dict[str, Any], *more: str) -> int:
    file = folder / "spillway.yaml"
    file.write_text(yaml.safe_dump(settings))
    return main(["check", str(file), *more])


def test_settings_that_serve_pass_and_nothing_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert checked(tmp_path, document(tmp_path), "--json") == 0
    assert json.loads(capsys.readouterr().out)["ok"] is True
    assert [path.name for path in tmp_path.iterdir()] == ["spillway.yaml"]


def test_names_are_said_as_they_are(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Between colons stands no picture."""
    settings = document(tmp_path)
    settings["models"] = {"ft:gpt-4o:acme:cat:id": settings["models"]["m"]}
    for console in ("err", "out"):  # which were made for other streams
        vars(commands_console).pop(console, None)
    assert checked(tmp_path, settings, "--file-only") == 0
    assert "ft:gpt-4o:acme:cat:id: onprem: gpu" in capsys.readouterr().err


def listener_tls(settings: dict[str, Any], folder: Path) -> None:
    settings["listen"] = {"tls": {"cert_file": str(folder / "a"), "key_file": str(folder / "b")}}


def listener_garbage(settings: dict[str, Any], folder: Path) -> None:
    for name in "ab":
        (folder / name).write_text("no certificate")
    listener_tls(settings, folder)


def endpoint_tls(settings: dict[str, Any], folder: Path) -> None:
    settings["endpoints"]["gpu"] |= {"url": "https://127.0.0.1:9", "ca_file": str(folder / "ca")}


def zone_tls(settings: dict[str, Any], folder: Path) -> None:
    settings["endpoints"]["gpu"]["url"] = "https://127.0.0.1:9"
    settings["tls"] = {"onprem": {"ca_file": str(folder / "ca")}}


def repository(settings: dict[str, Any], folder: Path) -> None:
    settings["endpoints"]["gpu"] = {
        "kind": "triton", "zone": "onprem", "embedded": True, "repository": str(folder / "none"),
    }  # fmt: skip


def audit_in_a_file(settings: dict[str, Any], folder: Path) -> None:
    (folder / "file").write_text("")
    settings["audit"]["directory"] = str(folder / "file" / "audit")


def damaged_ledger(settings: dict[str, Any], folder: Path) -> None:
    settings["ledger"] = {"path": str(folder / "ledger.db")}
    (folder / "ledger.db").write_bytes(b"no database" * 100)


def postgres(settings: dict[str, Any], folder: Path) -> None:
    (folder / "dsn").write_text("hunter2-is-no-connection-string")
    settings["ledger"] = {"postgres": f"${{file:{folder / 'dsn'}}}"}


def postgres_gone(settings: dict[str, Any], folder: Path) -> None:
    (folder / "dsn").write_text(f"host={folder} dbname=ledger")
    settings["ledger"] = {"postgres": f"${{file:{folder / 'dsn'}}}"}


@pytest.mark.parametrize(
    ("break_it", "words"),
    [
        (listener_tls, "listen.tls: "),
        (listener_garbage, "are not a certificate and its key"),
        (endpoint_tls, "cannot be read"),
        (zone_tls, "cannot be read"),
        (repository, "endpoints.gpu.repository: there is no directory"),
        (audit_in_a_file, "audit.directory: "),
        (damaged_ledger, "ledger: "),
        (postgres, "ledger.postgres is not a connection string"),
        (postgres_gone, "cannot be reached"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_check_refuses_what_serve_refuses(
    break_it: Callable[[dict[str, Any], Path], None],
    words: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    settings = document(tmp_path)
    break_it(settings, tmp_path)
    assert checked(tmp_path, settings) == 2
    by_check = capsys.readouterr().err
    assert words in by_check
    assert "hunter2" not in by_check
    assert checked(tmp_path, settings, "--file-only") == 0


def test_check_refuses_to_log_the_keys_of_tls(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSLKEYLOGFILE", str(tmp_path / "keys"))
    monkeypatch.delenv("SPILLWAY_TESTING", raising=False)
    assert checked(tmp_path, document(tmp_path)) == 2
    assert "SSLKEYLOGFILE" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("package", "section", "extra"),
    [
        ("opentelemetry", {"telemetry": {"otlp_url": "http://127.0.0.1:9"}}, "otel"),
        ("psycopg", {"ledger": {"postgres": "host=/nowhere"}}, "postgres"),
    ],
)
def test_check_refuses_an_extra_that_is_not_installed(
    package: str, section: dict[str, Any], extra: str, tmp_path: Path
) -> None:
    file = tmp_path / "spillway.yaml"
    file.write_text(yaml.safe_dump(document(tmp_path) | section))
    program = (
        f"import sys; sys.modules[{package!r}] = None; "
        "from gateway.__main__ import main; sys.exit(main(sys.argv[1:]))"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program, "check", str(file)],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert ended.returncode == 2
    assert f"spillway-gateway[{extra}]" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_check_warns_of_models_that_are_not_there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = document(tmp_path)
    (tmp_path / "models").mkdir()
    settings["endpoints"]["gpu"] = {
        "kind": "triton", "zone": "onprem", "embedded": True,
        "repository": str(tmp_path / "models"),
    }  # fmt: skip
    (tmp_path / "key").write_text("a-key-of-some-length-0123456789")
    key = {"key": f"${{file:{tmp_path / 'key'}}}", "tenant": "a", "models": ["m", "misspelt"]}
    settings["keys"] = {"a": key}
    assert checked(tmp_path, settings, "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["absent_models"] == [{"endpoint": "gpu", "model": "m"}]
    assert found["unknown_key_models"] == [{"key": "a", "model": "misspelt"}]
    settings["models"]["m"]["served_by"][0]["model"] = f"{tmp_path}/models"
    settings["models"]["m"]["served_by"][0]["substitute"] = False
    assert checked(tmp_path, settings, "--json") == 0
    elsewhere = json.loads(capsys.readouterr().out)["absent_models"]  # a directory, and none of it
    assert elsewhere == [{"endpoint": "gpu", "model": f"{tmp_path}/models"}]
    del settings["models"]["m"]["served_by"][0]["model"]
    settings["models"]["m"]["versions"] = {"1": 90, "2": 10}
    (tmp_path / "models/m/2").mkdir(parents=True)
    (tmp_path / "models/m/config.pbtxt").write_text("")
    assert checked(tmp_path, settings, "--json") == 0
    unloaded = json.loads(capsys.readouterr().out)["unloaded_versions"]
    assert unloaded == [{"endpoint": "gpu", "model": "m", "version": "1"}]
    assert checked(tmp_path, settings) == 0
    assert "m: its server does not load version 1" in capsys.readouterr().err
    shutil.rmtree(tmp_path / "models/m")
    del settings["models"]["m"]["versions"]
    assert checked(tmp_path, settings) == 0
    warned = capsys.readouterr().err
    assert "no model m" in warned
    assert "misspelt" in warned
