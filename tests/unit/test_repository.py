"""S8: a model repository whose batching can stall is found before it serves."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from google.protobuf import text_format
from tritonclient.grpc import model_config_pb2

from gateway.__main__ import main
from gateway.endpoints.triton.repository import hazards, loaded_versions, stalling_options

STALLING = (
    "priority_levels: 2",
    "default_priority_level: 1",
    "default_queue_policy { default_timeout_microseconds: 1000 }",
    "default_queue_policy { allow_timeout_override: true }",
    "default_queue_policy { max_queue_size: 16 }",
    "priority_queue_policy { key: 1 value { max_queue_size: 16 } }",
)


def repository(at: Path, batching: str) -> Path:
    model = at / "repository" / "m"
    model.mkdir(parents=True)
    config = (
        f'name: "m" backend: "python" max_batch_size: 8\n{batching}\nnew_in_a_later_triton: 1\n'
    )
    (model / "config.pbtxt").write_text(config)
    return model.parent


@pytest.mark.parametrize("option", STALLING)
def test_every_option_that_wakes_the_fault_is_told_with_its_name(
    tmp_path: Path, option: str
) -> None:
    (found,) = hazards(repository(tmp_path, f"dynamic_batching {{ {option} }}"))
    assert found.model == "m"
    assert option.split()[0].rstrip(":") in found.text


@pytest.mark.parametrize(
    "batching",
    ["", "dynamic_batching { }", "dynamic_batching { max_queue_delay_microseconds: 100 }",
     "sequence_batching { oldest { max_candidate_sequences: 4 } }"],
)  # fmt: skip
def test_plain_batching_is_no_hazard(tmp_path: Path, batching: str) -> None:
    assert hazards(repository(tmp_path, batching)) == []


def test_a_model_whose_answers_triton_would_keep_is_a_hazard(tmp_path: Path) -> None:
    (found,) = hazards(repository(tmp_path, "response_cache { enable: true }"))
    assert "restricted data" in found.text
    assert hazards(repository(tmp_path / "off", "response_cache { enable: false }")) == []


def test_a_config_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    (found,) = hazards(repository(tmp_path, "dynamic_batching {"))
    assert "ParseError" in found.text


def test_options_are_named_with_where_they_stand() -> None:
    text = "default_queue_policy { max_queue_size: 3 } priority_levels: 2"
    parsed = text_format.Parse(text, model_config_pb2.ModelDynamicBatching())
    assert stalling_options(parsed) == {"default_queue_policy.max_queue_size", "priority_levels"}


def test_check_and_doctor_warn_of_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    root = repository(tmp_path, "dynamic_batching { priority_levels: 2 }")
    settings = tmp_path / "spillway.yaml"
    settings.write_text(
        "endpoints: {local: {kind: triton, zone: onprem, embedded: true, "
        f"repository: {root}}}}}\n"
        "models: {m: {served_by: [{endpoint: local}]}}\n"
    )
    assert main(["check", str(settings), "--json"]) == 0
    (told,) = json.loads(capsys.readouterr().out)["hazards"]
    assert (told["endpoint"], told["model"]) == ("local", "m")
    assert main(["check", str(settings)]) == 0
    assert "server#8870" in capsys.readouterr().err
    root.rename(tmp_path / "models")
    monkeypatch.chdir(tmp_path)
    assert main(["doctor", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["models"]
    assert not found["ok"]
    assert "priority_levels" in found["told"]


LOADED: tuple[tuple[str, set[str]], ...] = (
    ("", {"3"}),
    ("version_policy { latest { num_versions: 2 } }", {"2", "3"}),
    ("version_policy { specific { versions: [ 1, 3, 9 ] } }", {"1", "3"}),
    ("version_policy { all { } }", {"1", "2", "3"}),
    ("no pbtxt", set()),
)


@pytest.mark.parametrize(("text", "loaded"), LOADED)
def test_which_versions_a_server_loads_is_read_from_its_policy(
    text: str, loaded: set[str], tmp_path: Path
) -> None:
    for name in ("1", "2", "3", "configs", "01x"):
        (tmp_path / name).mkdir()
    (tmp_path / "config.pbtxt").write_text(text)
    assert loaded_versions(tmp_path) == loaded
