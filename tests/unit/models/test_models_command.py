"""`spillway models` as it is typed: exit codes, JSON, and what it prints."""

from __future__ import annotations

import json
import textwrap
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


SETTINGS = """\
# ours
endpoints:
  gpu: {kind: triton, zone: onprem, embedded: true, repository: %s, expected_ms: 20}  # the card
  other: {kind: openai, zone: cloud, url: "https://api.example.com", api_key: "${NOT_SET_HERE}"}
models:
  old: {task: generate, served_by: [{endpoint: other}]}  # of before
"""


def test_its_entry_stands_in_the_settings_and_nothing_else_changes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    repository, path = tmp_path / "models", tmp_path / "spillway.yaml"
    repository.mkdir()
    text = SETTINGS % repository
    path.write_text(text)
    file = graphs.scores(tmp_path / "new.onnx")
    words = ["models", "build", str(file), "--as", "new", "--no-profile", "--engine", "none"]
    words += ["--repository", str(repository), "--config", str(path)]
    assert main(words) == 0
    entry = "  new:\n    max_batch: 32\n    served_by:\n    - {endpoint: gpu}\n"
    assert path.read_text() == text + entry
    assert "has its entry now" in capsys.readouterr().err
    assert main(words) == 0
    assert path.read_text() == text + entry
    assert "names it already" in capsys.readouterr().err
    path.write_text(text)
    assert main([*words, "--print-entry"]) == 0
    assert path.read_text() == text
    assert textwrap.indent(f"models:\n{entry}", "    ") in capsys.readouterr().err


def test_without_settings_it_prints_some_that_work_as_they_are(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "models").mkdir()
    monkeypatch.chdir(tmp_path)
    file = graphs.scores(tmp_path / "new.onnx")
    words = ["models", "build", str(file), "--as", "new", "--no-profile", "--engine", "none"]
    assert main([*words, "--json"]) == 0
    block = json.loads(capsys.readouterr().out)["entry"]
    (tmp_path / "spillway.yaml").write_text(block)
    assert main(["check"]) == 0


NOT_WRITTEN = {
    "an alias": (SETTINGS.replace("models:", "d: &d {}\nmodels: *d\nx:"), 0, "add by hand"),
    "two endpoints": (
        SETTINGS.replace(
            "models:",
            "  another: {kind: triton, zone: onprem, embedded: true, repository: %s}\nmodels:",
            1,
        ),
        2,
        "say with --endpoint which one serves",
    ),
    "no endpoint": (
        SETTINGS.replace("zone: onprem, embedded: true", "zone: cloud"),
        0,
        "make the settings",
    ),
    "no YAML": (SETTINGS + "a: [\n", 2, "not valid YAML"),
}


@pytest.mark.parametrize("how", NOT_WRITTEN)
def test_settings_that_a_command_cannot_change_stay(
    how: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    repository, path = tmp_path / "models", tmp_path / "spillway.yaml"
    repository.mkdir()
    template, code, told = NOT_WRITTEN[how]
    path.write_text(template.replace("%s", str(repository)))
    before = path.read_bytes()
    file = graphs.scores(tmp_path / "new.onnx")
    words = ["models", "build", str(file), "--as", "new", "--no-profile", "--engine", "none"]
    assert main([*words, "--repository", str(repository), "--config", str(path)]) == code
    assert told in " ".join(capsys.readouterr().err.split())
    assert path.read_bytes() == before
    assert (repository / "new").exists() is (code == 0)


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
