"""What the commands say to people."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway import __main__ as command_line
from tests.unit.models.registry import rig
from tests.unit.models.registry.rig import NAME


def said(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    capsys.readouterr()
    code = command_line.main(["models", *words])
    return code, " ".join(capsys.readouterr().err.split())


def test_push_pull_and_rollback_say_what_they_did(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    here = ("--repository", str(rig.repository(tmp_path)))
    there = ("--repository", str(rig.repository(tmp_path / "elsewhere", 2)))
    shelf = str(tmp_path / "shelf")
    code, text = said(capsys, "push", NAME, "--to", shelf, *there, "--dry-run")
    assert (code, text.startswith(f"would push {NAME} version 2: 5 files")) == (0, True)
    assert not Path(shelf).exists()
    code, text = said(capsys, "push", NAME, "--to", shelf, *there)
    assert code == 0
    assert "not signed: whoever can write to the registry can change it" in text
    code, text = said(capsys, "push", NAME, "--to", shelf, *there)
    assert (code, "versions do not change" in text) == (1, True)

    code, text = said(capsys, "pull", NAME, "--from", shelf, *here, "--dry-run")
    assert code == 0
    assert "would pull fraud_score version 2" in text
    assert "here is version 1" in text
    code, text = said(capsys, "pull", NAME, "--from", shelf, *here, "--no-trial")
    assert code == 0
    assert "is installed. No server runs over this repository" in text
    assert "note: it was not tried before it was installed (--no-trial)" in text
    code, text = said(capsys, "pull", NAME, "--from", shelf, *here)
    assert (code, "is here already, as the registry has it" in text) == (0, True)

    code, text = said(capsys, "rollback", NAME, *here, "--dry-run")
    assert (code, text) == (0, "fraud_score version 1 would serve")
    assert said(capsys, "rollback", NAME, *here) == (0, "fraud_score version 1 is the latest here")
    code, text = said(capsys, "rollback", NAME, *here)
    assert (code, "has no version before 1 here" in text) == (1, True)
    code, text = said(capsys, "rollback", NAME, *here, "--to", "9")
    assert (code, "has no version 9 here; there are: 1, 2" in text) == (1, True)
    assert said(capsys, "rollback", NAME, *here, "--to", "2")[0] == 0
    code, text = said(capsys, "rollback", "nothing", *here)
    assert (code, "there is no model nothing" in text) == (1, True)


def test_a_rollback_of_what_is_not_there_makes_no_model(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    repository = rig.repository(tmp_path)
    said(capsys, "rollback", "nothing", "--repository", str(repository))
    assert [path.name for path in repository.iterdir()] == [NAME]


def test_warming_without_a_server_says_what_to_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    repository = str(rig.repository(tmp_path))
    code, text = said(capsys, "warm", NAME, "--repository", repository)
    assert code == 1
    assert "start the gateway, or name a Triton with --server" in text


def test_a_registry_that_is_not_there_is_said_to_be_not_there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    here = ("--repository", str(rig.repository(tmp_path)))
    code, text = said(capsys, "pull", NAME, "--from", str(tmp_path / "none"), *here)
    assert (code, "is the share mounted?" in text) == (1, True)
    code, text = said(capsys, "push", "nothing", "--to", str(tmp_path / "s"), *here)
    assert (code, "has no version" in text) == (1, True)
    code, text = said(capsys, "pull", NAME, "--from", "gopher://x/", *here)
    assert (code, "no kind of registry" in text) == (1, True)
