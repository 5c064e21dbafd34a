"""What a manifest may say, and that no other one is read."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.models.registry import UnfitVersion
from gateway.models.registry import manifest as manifests
from gateway.models.registry.manifest import Content, Manifest

SHA = "0" * 64
GOOD = Manifest(
    "m", 2, "2026-11-22T08:00:00Z", Content(3, SHA),
    {"a.onnx": Content(5, SHA), "b/c": Content(0, SHA)},
)  # fmt: skip


def canonical(document: Any) -> bytes:
    return json.dumps(document, sort_keys=True, separators=(",", ":")).encode()


def changed(**changes: Any) -> bytes:
    return canonical({**json.loads(GOOD.encoded()), **changes})


def with_paths(*paths: Any) -> bytes:
    return changed(files=[{"path": path, "size": 1, "sha256": SHA} for path in paths])


def test_what_is_written_is_read_again() -> None:
    assert manifests.parse(GOOD.encoded(), "m", 2) == GOOD
    assert GOOD.size == 8


@pytest.mark.parametrize(
    "path",
    [
        "../x", "a/../b", "/etc/passwd", "./x", "a//b", "a/", "", ".hidden", "a/.b", "a\\b", "C:x",
        "a\nb", "a\0b", "ü", " x", "__pycache__/x.pyc", "a/" * 8 + "b", "x" * 129, "~", "a b",
        None, 7,
    ],
)  # fmt: skip
def test_a_path_that_could_lead_anywhere_else_is_refused(path: Any) -> None:
    with pytest.raises(UnfitVersion, match="path"):
        manifests.parse(with_paths(path), "m", 2)


@pytest.mark.parametrize("paths", [("a", "a"), ("A", "a"), ("a", "a/b"), ("A/x", "a")])
def test_two_files_never_have_one_place(paths: tuple[str, ...]) -> None:
    with pytest.raises(UnfitVersion, match=r"same name|directory of it"):
        manifests.parse(with_paths(*sorted(paths)), "m", 2)


@pytest.mark.parametrize(
    "raw",
    [
        b"", b"{", b"[]", b"null", b"\xff", b"<html></html>", b'{"format":1,"format":1}',
        b"[" * 100_000,
        changed(format=2), changed(format=True), changed(model="../m"), changed(model=3),
        changed(version=0), changed(version=-1), changed(version="2"), changed(version=True),
        changed(version=1 << 40), changed(created="yesterday"), changed(created=5),
        changed(files=[]), changed(files={}), changed(files=[{}]), changed(files=["a"]),
        changed(files=[{"path": "a", "size": -1, "sha256": SHA}]),
        changed(files=[{"path": "a", "size": 1.0, "sha256": SHA}]),
        changed(files=[{"path": "a", "size": 1 << 60, "sha256": SHA}]),
        changed(files=[{"path": "a", "size": 1, "sha256": "x" * 64}]),
        changed(files=[{"path": "a", "size": 1, "sha256": SHA.replace("0", "A")}]),
        changed(files=[{"path": "a", "size": 1, "sha256": SHA, "mode": 7}]),
        changed(declaration={"size": 1}), changed(more=1),
        with_paths("b", "a"),  # not sorted
        b" " + GOOD.encoded(), GOOD.encoded() + b"\n", GOOD.encoded().replace(b":", b": "),
        GOOD.encoded().replace(b'"m"', b'"\\u006d"'),
    ],
)  # fmt: skip
def test_what_is_not_a_manifest_to_the_byte_is_refused(raw: bytes) -> None:
    with pytest.raises(UnfitVersion, match=r"manifest|path"):
        manifests.parse(raw, "m", 2)


@pytest.mark.parametrize(("model", "version"), [("n", 2), ("m", 3)])
def test_a_manifest_of_another_model_or_version_is_refused(model: str, version: int) -> None:
    with pytest.raises(UnfitVersion, match="wrong place"):
        manifests.parse(GOOD.encoded(), model, version)


@given(st.binary(max_size=400), st.integers(0, len(GOOD.encoded())))
def test_whatever_bytes_come_it_is_read_to_the_byte_or_refused(noise: bytes, at: int) -> None:
    raw = GOOD.encoded()[:at] + noise + GOOD.encoded()[at + len(noise) :]
    with contextlib.suppress(UnfitVersion):
        assert manifests.parse(raw, "m", 2).encoded() == raw


def test_a_directory_is_described_and_compared(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "__pycache__").mkdir()
    (tmp_path / "__pycache__" / "a.pyc").write_bytes(b"cache")
    (tmp_path / "a").write_bytes(b"1")
    (tmp_path / "sub" / "b").write_bytes(b"22")
    made = manifests.from_directory("m", 1, tmp_path, b"name: m", 0.0)
    assert list(made.files) == ["a", "sub/b"]
    assert made.created == "1970-01-01T00:00:00Z"
    assert manifests.differences(made, tmp_path) == []
    (tmp_path / "a").write_bytes(b"2")
    (tmp_path / "c").write_bytes(b"")
    (tmp_path / "sub" / "b").unlink()
    told = ["sub/b is missing", "c is not in the manifest", "a differs"]
    assert manifests.differences(made, tmp_path) == told


def test_a_link_is_neither_pushed_nor_passed_over(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("/etc/hostname")
    with pytest.raises(UnfitVersion, match="link"):
        manifests.from_directory("m", 1, tmp_path, b"", 0.0)


def test_a_version_without_files_is_not_pushed(tmp_path: Path) -> None:
    with pytest.raises(UnfitVersion, match="nothing to push"):
        manifests.from_directory("m", 1, tmp_path, b"", 0.0)
