"""`spillway models` as it is typed: exit codes, JSON, and what it prints."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gateway.__main__ import main
from tests.unit.models import graphs
from tests.unit.models.repositories import added, every_byte


def test_an_onnx_file_becomes_a_model_in_one_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "models").mkdir()
    file = graphs.scores(tmp_path / "new.onnx")
    words = ["models", "build", str(file), "--as", "new", "--no-profile", "--engine", "none"]
    assert main([*words, "--repository", str(tmp_path / "models")]) == 0
    told = capsys.readouterr().err
    assert "complete" in told
    assert "new:\n" in told  # its entry in the settings
    assert main(["models", "verify", "--repository", str(tmp_path / "models")]) == 0
    assert main(["models", "config", "--check", "--repository", str(tmp_path / "models")]) == 0


WRONG: tuple[tuple[tuple[str, ...], int, str], ...] = (
    (("build", "{file}"), 2, "with --as NAME"),
    (("build", "{file}", "--as", "../up"), 2, "a name has letters"),
    (("build", "{dir}/none.onnx", "--as", "new"), 2, "is not there"),
    (("build", "{file}", "--as", "new", "--tokenizer", "{dir}/none"), 2, "is not there"),
    (("build", "other"), 2, "with one are: scores"),
    (("build", "scores", "--engine", "tensorrt"), 1, "pip install"),
    (("quantize", "scores"), 2, "does not allow int8"),
    (("verify", "other"), 2, "with one are: scores"),
    (("config", "other"), 2, "with one are: scores"),
)


@pytest.mark.parametrize(("words", "code", "told"), WRONG, ids=lambda value: str(value))
def test_what_is_wrong_is_told_and_changes_nothing(
    words: tuple[str, ...], code: int, told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    added(tmp_path / "models")
    file = graphs.scores(tmp_path / "new.onnx")
    before = every_byte(tmp_path / "models")
    given = [word.format(file=file, dir=tmp_path) for word in words]
    assert main(["models", *given, "--repository", str(tmp_path / "models")]) == code
    assert told in capsys.readouterr().err
    assert every_byte(tmp_path / "models") == before


def listed(repository: Path, capsys: pytest.CaptureFixture[str]) -> Any:
    assert main(["models", "ls", "--json", "--repository", str(repository)]) == 0
    return json.loads(capsys.readouterr().out)


def test_a_list_says_what_is_known_of_each_variant(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = added(tmp_path / "models")
    words = ["--repository", str(tmp_path / "models")]
    assert main(["models", "build", "scores", "--engine", "none", *words]) == 0
    capsys.readouterr()
    (model,) = listed(tmp_path / "models", capsys)
    assert (model["versions"], model["ranges"]) == ([1], {"batch": [1, 8, 32]})
    variants = {v["file"]: v for v in model["variants"]}
    assert variants["model.fp16.onnx"]["verified"] is True
    assert variants["model.fp16.onnx"]["precision"] == "fp16"
    graphs.scores(directory / "1/model.fp16.onnx", seed=3)  # nobody knows this one
    (model,) = listed(tmp_path / "models", capsys)
    assert "model.fp16.onnx" not in {v["file"] for v in model["variants"] if v["verified"]}


def test_a_list_goes_on_past_a_model_that_is_wrong(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    added(tmp_path / "models")
    other = added(tmp_path / "models", name="other")
    (other / "model.yaml").write_text("nonsense: 1\n")
    found = {model["name"]: model["wrong"] for model in listed(tmp_path / "models", capsys)}
    assert found["scores"] is None
    assert "nonsense: unknown key" in found["other"]


def test_a_stale_config_is_told(tmp_path: Path) -> None:
    directory = added(tmp_path / "models")
    words = ["models", "config", "--check", "--repository", str(tmp_path / "models")]
    (directory / "config.pbtxt").write_text("")
    assert main(words) == 1
    assert main([word for word in words if word != "--check"]) == 0
    assert main(words) == 0
