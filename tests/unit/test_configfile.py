"""O1: a file that YAML reads in a surprising way is refused with its line, or read as meant."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway import config
from gateway.config import ConfigError
from gateway.core.types import Zone
from tests.unit.settings_text import GOOD, changed, refusal


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPILLWAY_TEST_KEY", "s3cret")


# YAML


@pytest.mark.parametrize(
    ("text", "told"),
    [
        pytest.param("", "f.yaml:1: the file is empty", id="empty"),
        pytest.param("# nothing\n\n", "f.yaml:1: the file is empty", id="comments"),
        pytest.param("---\n", "f.yaml:1: the file ", id="an-empty-document"),
        pytest.param("- a\n", "f.yaml:1: the file must be a mapping", id="a-list"),
        pytest.param("just words\n", "f.yaml:1: the file must be a mapping", id="words"),
        pytest.param("a:\n\tb: 1\n", "f.yaml:2: not valid YAML: ", id="tab"),
        pytest.param("a: [1\nb: 2\n", "f.yaml:2: not valid YAML: ", id="open-bracket"),
        pytest.param("a: 1\n---\nb: 2\n", "f.yaml:2: not valid YAML: ", id="two-documents"),
        pytest.param("a: *nowhere\n", "f.yaml:1: not valid YAML: ", id="alias-of-nothing"),
        pytest.param("a: 1\nb: \x07\n", "f.yaml:2: not valid YAML: ", id="control-character"),
        pytest.param("[" * 5000, "f.yaml:1: not valid YAML: ", id="deep"),
        pytest.param("a: !!python/name:os.system x\n", "f.yaml:1: a: the tag ", id="python-tag"),
        pytest.param("a: !!binary aGk=\n", "f.yaml:1: a: the tag ", id="binary-tag"),
        pytest.param("a: !mine x\n", "f.yaml:1: a: the tag ", id="own-tag"),
        pytest.param("? [a, b]\n: 1\n", "f.yaml:1: its keys must be names", id="list-key"),
        pytest.param("a: &x\n  b: *x\n", "f.yaml:1: b: holds itself", id="a-value-in-itself"),
        pytest.param("a: &x [*x]\n", "f.yaml:1: a: holds itself", id="a-list-in-itself"),
        pytest.param("a:\n  <<: 1\n", "f.yaml:2: a: << must name a mapping", id="merge-of-one"),
        pytest.param("a: &x\n  <<: *x\n", "f.yaml:", id="merge-of-itself"),
    ],
)
def test_yaml_that_says_nothing_sensible_is_refused_with_its_line(text: str, told: str) -> None:
    assert refusal(text).startswith(told)


def test_a_bomb_of_aliases_is_refused() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 9)]
    assert "too many values" in refusal("\n".join(lines))


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        ("zone: onprem", "zone: onprem\n    zone: cloud", 5),
        ("models:\n", "endpoints: {}\nmodels:\n", 10),
        ("  out:", "  gpu:", 6),
        ("zone: onprem", "zone: onprem\n    'zone': cloud", 5),
    ],
)
def test_a_key_that_stands_twice_is_refused_at_its_second_place(
    old: str, new: str, line: int
) -> None:
    told = refusal(changed(old, new))
    assert told.startswith(f"f.yaml:{line}: ")
    assert told.endswith(": stands here twice")


ANCHORED = """\
endpoints:
  gpu: &gpu
    kind: triton
    zone: onprem
    grpc: gpu-1:8001
    headers: &common {x-team: "${SPILLWAY_TEST_KEY}"}
  gpu2: &gpu2
    <<: *gpu
    grpc: gpu-2:8001
  gpu3:
    <<: *gpu
    headers: *common
  gpu4: *gpu2
models: {}
"""


def test_anchors_and_merged_keys_mean_what_yaml_says() -> None:
    endpoints = config.parse(ANCHORED).endpoints
    assert [e.grpc for e in endpoints.values()] == [
        "gpu-1:8001", "gpu-2:8001", "gpu-1:8001", "gpu-2:8001",
    ]  # fmt: skip
    for endpoint in endpoints.values():
        assert endpoint.zone is Zone.ONPREM
        assert endpoint.headers["x-team"].get_secret_value() == "s3cret"


def test_a_wrong_key_that_came_by_an_anchor_is_named_where_it_is_written() -> None:
    told = refusal(ANCHORED.replace("zone: onprem", "zone: edge")).splitlines()
    assert [line.partition(": ")[0] for line in told] == ["f.yaml:4"] * 4


def test_a_wrong_key_that_overrides_a_merged_one_is_named_where_it_overrides() -> None:
    told = refusal(ANCHORED.replace("gpu-2:8001", "gpu-2"))
    assert told.startswith("f.yaml:9: endpoints.gpu2.grpc: must be host:port")


def test_dates_and_numbers_in_names_are_text() -> None:
    text = changed("model: gpt-4.1", "model: 2024-08-06")
    assert config.parse(text).models["chat"].served_by[1].model == "2024-08-06"


# Files


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"a: \xff\n", "is not UTF-8 text (byte 3)"),
        ("a: 1\n".encode("utf-16"), "is not UTF-8 text (byte 0)"),
        (b"", "the file is empty"),
    ],
)
def test_a_file_that_is_not_text_is_refused(tmp_path: Path, content: bytes, told: str) -> None:
    path = tmp_path / "f.yaml"
    path.write_bytes(content)
    with pytest.raises(ConfigError) as caught:
        config.load(path)
    assert str(path) in str(caught.value)
    assert told in str(caught.value)


def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "none.yaml"):
        with pytest.raises(ConfigError, match="cannot be read"):
            config.load(path)


def test_a_file_of_another_system_is_read(tmp_path: Path) -> None:
    path = tmp_path / "f.yaml"
    path.write_bytes(b"\xef\xbb\xbf" + GOOD.replace("\n", "\r\n").encode())
    assert config.load(path) == config.parse(GOOD)
