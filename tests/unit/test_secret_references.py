"""Where secrets come from: files, the environment, a file in its place, and commands (T5)."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gateway import config
from gateway.core.process import references
from gateway.core.yaml_document import sources
from tests.unit.settings_text import GOOD, changed, refusal

KEYS = "keys:\n  app:\n    tenant: a\n    key: %s\n"
CANARY = "canary-of-a-command"


def secret(reference: str, more: str = "") -> str:
    settings = config.parse(GOOD + KEYS % reference + more)
    return settings.keys["app"].key.get_secret_value()


def test_a_command_prints_a_secret() -> None:
    assert secret('"${command:printf %s s3cret}"') == "s3cret"
    assert secret("\"${command:printf ' %s\\n\\n' 'a b'}\"") == "a b"


def test_a_command_has_no_shell() -> None:
    assert secret('"${command:echo $HOME; echo `id` && true}"') == "$HOME; echo `id` && true"


def test_a_command_runs_once_for_a_reading_of_the_file(tmp_path: Path) -> None:
    script, count = tmp_path / "script", tmp_path / "count"
    script.write_text(f"#!/bin/sh\necho run >> {count}\necho s3cret\n")
    script.chmod(0o700)
    reference = f'"${{command:{script}}}"'
    text = changed("kind: openai", f"kind: openai\n    api_key: {reference}")
    settings = config.parse(text + KEYS % reference)
    assert settings.keys["app"].key == settings.endpoints["out"].api_key
    assert count.read_text() == "run\n"


@pytest.mark.parametrize(
    ("command", "problem"),
    [
        (f"sh -c 'echo {CANARY}; echo {CANARY} >&2; exit 3'", "the command sh ended with 3"),
        (f"/nowhere/vault {CANARY}", "the command vault cannot be started"),
        ("true", "the secret behind its command is empty"),
        (f"echo '{CANARY}", "the command has a quotation mark too few"),
        (" ", "the command names no program"),
        (r"printf '\\377'", "the command printf prints no UTF-8 text"),
        ("head -c 65537 /dev/zero", "the command head prints more than 65536 bytes"),
    ],
)
def test_a_command_that_gives_no_secret_is_reported_without_its_words(
    command: str, problem: str
) -> None:
    assert refusal(GOOD + KEYS % f'"${{command:{command}}}"') == f"f.yaml:21: key: {problem}"


@pytest.mark.parametrize("begins", ["", "exec >&-; "])
def test_a_command_that_takes_too_long_is_ended(
    begins: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(references, "_COMMAND_S", 0.2)
    trace = tmp_path / "ended by itself"
    command = f"sh -c '{begins}sleep 3; touch \\\"{trace}\\\"'"
    assert "the command sh takes longer than 0.2 s" in refusal(
        GOOD + KEYS % f'"${{command:{command}}}"'
    )
    assert not trace.exists()


def test_commands_run_for_secrets_alone(tmp_path: Path) -> None:
    trace = tmp_path / "ran"
    text = changed("gpu-1:8001", f"${{command:touch {trace}}}")
    assert "grpc: commands are run for secrets alone" in refusal(text)
    assert not trace.exists()


def test_a_password_within_a_connection_string_may_come_from_a_command() -> None:
    ledger = 'ledger: {postgres: "postgresql://u:${command:echo pw}@h/db"}\n'
    postgres = config.parse(GOOD + ledger).ledger.postgres
    assert postgres is not None
    assert postgres.get_secret_value() == "postgresql://u:pw@h/db"


def test_a_secret_of_a_query_is_a_reference_and_is_not_shown() -> None:
    text = changed("kind: openai", "provider: openai\n    query: {api-version: '1', key: %s}")
    assert "secrets stand in the environment" in refusal(text.replace("%s", CANARY))
    settings = config.parse(text.replace("%s", f'"${{command:echo {CANARY}}}"'))
    assert settings.endpoints["out"].query["key"].get_secret_value() == CANARY
    assert CANARY not in settings.model_dump_json() + repr(settings)


def test_a_file_stands_over_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPILLWAY_TEST_KEY", "of the process")
    file = tmp_path / "environment"
    file.write_text('# a remark=1\n\nOTHER=x\nSPILLWAY_TEST_KEY="of the file"\nnothing\n')
    more = f"reload: {{environment: {file}}}\n"
    assert secret('"${SPILLWAY_TEST_KEY}"') == "of the process"
    assert secret('"${SPILLWAY_TEST_KEY}"', more) == "of the file"
    assert "SPILLWAY_TEST_KEY" in os.environ
    file.unlink()
    told = refusal(GOOD + KEYS % '"${SPILLWAY_TEST_KEY}"' + more)
    assert told == f"f.yaml:1: reload.environment: the file {file} cannot be read"


def test_the_sources_of_a_file_are_its_references(tmp_path: Path) -> None:
    path = tmp_path / "s.yaml"
    path.write_text(KEYS % '"${file:/run/key}"' + "reload: {environment: /run/env}\n")
    assert sources(path) == ((Path("/run/key"), Path("/run/env")), False)
    path.write_text(KEYS % '"${command:vault}"')
    assert sources(path) == ((), True)
    path.write_text("a: [")
    assert sources(path) == ((), False)
