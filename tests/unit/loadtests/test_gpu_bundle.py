"""The folder that carries the measurements of a card: what is in it, its size, and that it runs."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import onnx
import pytest

from gateway.models.sessions import Session
from loadtests.gpu.bundle import __main__ as bundle
from loadtests.gpu.bundle import fatbin, rounding

ROOT = Path(__file__).resolve().parents[3]
OWN_PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
SMALL = ["--pieces", "code", "--models", "fraud_score", "--python", OWN_PYTHON, "--preset", "0"]
OF_THE_MACHINE = (
    "numpy", "onnx", "onnxruntime", "tokenizers", "huggingface_hub", "httpx", "grpc", "uvloop",
    "rich", "pygments", "markdown_it", "mdurl", "prometheus_client", "yaml", "google", "ml_dtypes",
    "typing_extensions", "packaging", "flatbuffers",
)  # fmt: skip
"""What the bundle expects of a machine."""


def entry(architecture: int, payload: bytes) -> bytes:
    header = struct.pack("<HHIQ", 2, 0x101, 64, len(payload)).ljust(28, b"\0")
    return (header + struct.pack("<I", architecture)).ljust(64, b"\0") + payload


def container(*entries: bytes) -> bytes:
    body = b"".join(entries)
    return struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(body)) + body


def library(kernels: bytes, section: bytes = b".nv_fatbin") -> bytes:
    """A shared library of 64 bits that has nothing but this section, and its section's name."""
    names = b"\0" + section + b"\0"
    head = 64
    table_at = head + len(kernels) + len(names)
    elf = b"\x7fELF\x02\x01\x01".ljust(40, b"\0") + struct.pack("<Q", table_at)
    elf = elf.ljust(58, b"\0") + struct.pack("<HHH", 64, 2, 1)
    sections = ((1, head, len(kernels)), (0, head + len(kernels), len(names)))
    table = b"".join(
        struct.pack("<IIQQQQ", name, 1, 0, 0, offset, size).ljust(64, b"\0")
        for name, offset, size in sections
    )
    return elf.ljust(head, b"\0") + kernels + names + table


def test_kernels_of_one_architecture_stay_and_nothing_moves(tmp_path: Path) -> None:
    first = container(entry(80, b"a" * 96), entry(90, b"b" * 40), entry(120, b"c" * 8))
    alone = container(entry(90, b"hopper's own"))
    source, thinned = tmp_path / "fat.so", tmp_path / "thin.so"
    source.write_bytes(library(first + alone))
    assert fatbin.thin(source, thinned, 90).architectures == (80, 90, 120)
    held = thinned.read_bytes()
    assert len(held) == source.stat().st_size
    kept = entry(90, b"b" * 40)
    assert held[64 : 64 + len(first)] == (
        struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(kept)) + kept
    ).ljust(len(first), b"\0")
    second = held[64 + len(first) :][: len(alone)]  # where it was, and empty
    assert second == struct.pack("<IHHQ", 0xBA55ED50, 1, 16, 0).ljust(len(alone), b"\0")
    assert held[64 + len(first + alone) :] == library(first + alone)[64 + len(first + alone) :]


@pytest.mark.parametrize(
    ("held", "why"),
    [
        (library(container(entry(80, b"a"), entry(86, b"b"))), r"built for \[80, 86\], and not"),
        (library(b"", b".text"), "has no kernels"),
        (b"#!/bin/sh", "no shared library"),
        (library(b"\1" * 32), "no container of kernels"),
    ],
)
def test_a_library_without_the_kernels_is_refused(tmp_path: Path, held: bytes, why: str) -> None:
    source = tmp_path / "lib.so"
    source.write_bytes(held)
    with pytest.raises(fatbin.NoKernels, match=why):
        fatbin.thin(source, tmp_path / "thin.so", 90)
    assert not (tmp_path / "thin.so").exists()


def test_a_rounded_graph_has_the_shape_of_the_original_and_is_near_it(tmp_path: Path) -> None:
    chance = np.random.default_rng(7)
    weight = chance.normal(size=(256, 256)).astype(np.float32)
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("MatMul", ["x", "w"], ["y"])],
        "g",
        [onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["n", 256])],
        [onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, ["n", 256])],
        [onnx.numpy_helper.from_array(weight, "w")],
    )
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)])
    model.ir_version = 10
    source, restored = tmp_path / "model.onnx", tmp_path / "restored.onnx"
    onnx.save(model, source)
    rounding.round_off(source, tmp_path / "rounded")
    rounding.restore(tmp_path / "rounded", restored)
    assert (tmp_path / "rounded/graph.onnx").stat().st_size < 1000
    (after,) = onnx.load(restored).graph.initializer
    values = onnx.numpy_helper.to_array(after)
    scale = np.abs(weight).max(axis=1, keepdims=True) / rounding.LEVELS
    assert (np.abs(values - weight) <= scale / 2 + 1e-6).all()
    assert len(np.unique(values[0])) <= 2 * rounding.LEVELS + 1
    feed = {"x": chance.normal(size=(2, 256)).astype(np.float32)}
    answers = [np.asarray(Session(p).run(feed)["y"], np.float64) for p in (source, restored)]
    assert np.corrcoef(answers[0].ravel(), answers[1].ravel())[0, 1] > 0.99


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The checkout with one small model, for this Python."""
    out = tmp_path_factory.mktemp("bundle") / "folder"
    assert bundle.main(["--out", str(out), *SMALL]) == 0
    return out


def test_a_bundle_keeps_its_limit(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (part,) = made.iterdir()
    assert {file.name for file in part.iterdir()} == {"run.sh", "unpack.py", "code.xz.01"}
    assert sum(file.stat().st_size for file in part.iterdir()) < 64 << 20


def test_a_bundle_over_its_limit_is_refused_and_leaves_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "folder"
    assert bundle.main(["--out", str(out), "--limit-mb", "1", *SMALL]) == 1
    captured = capsys.readouterr()
    assert "code.xz" in captured.out
    assert "parts of 1 MiB, and --most-parts is 1" in captured.err
    assert not out.exists()


def test_a_piece_goes_on_in_the_next_part(tmp_path: Path) -> None:
    pieces = [tmp_path / "a.xz", tmp_path / "b.xz"]
    contents = [b"a" * 250, b"b" * 60]
    for path, content in zip(pieces, contents, strict=True):
        path.write_bytes(content)
    bundle._divide(pieces, tmp_path / "out", 100)
    parts = sorted((tmp_path / "out").iterdir())
    sizes = [sum(f.stat().st_size for f in p.glob("*.xz.*")) for p in parts]
    assert sizes == [100, 100, 100, 10]
    for path, content in zip(pieces, contents, strict=True):
        chunks = sorted((tmp_path / "out").glob(f"part*/{path.name}.*"), key=lambda c: c.name)
        assert b"".join(chunk.read_bytes() for chunk in chunks) == content


def test_a_bundle_runs_in_an_empty_folder_with_what_a_machine_brings(
    made: Path, tmp_path: Path
) -> None:
    """Without this environment's packages but the ones that the machine brings: Python does not
    look into site-packages (-S), and the rest comes out of the bundle."""
    machine = tmp_path / "machine"
    machine.mkdir()
    for name in OF_THE_MACHINE:
        spec = find_spec(name)
        if spec is None:
            continue
        places = spec.submodule_search_locations or [spec.origin or ""]
        (machine / Path(places[0]).name).symlink_to(places[0])
    python = tmp_path / "python3"
    python.write_text(f'#!/bin/bash\nexec "{sys.executable}" -S "$@"\n')
    python.chmod(0o755)
    short = ["--rounds", "1", "--seconds", "0.01", "--batches", "1", "--texts", "1"]
    ended = subprocess.run(
        ["/bin/bash", str(made / "part1/run.sh"), "--only", "fraud_score", *short],
        env={
            "PATH": os.defpath,
            "PYTHON": str(python),
            "PYTHONPATH": str(machine),
            "HOME_OF_BUNDLE": str(tmp_path / "home"),
            "COLUMNS": "200",
        },
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert ended.returncode == 0, ended.stderr
    lines = ended.stdout.splitlines()

    def line(*words: str) -> str:
        return next(x for x in lines if all(word in x for word in words))

    assert "loads" in line("providers", "CPUExecutionProvider")
    assert line("curves", "fraud_score", "cpu")
    assert line("names", "reading", "cpu")
    assert line("gateway", "absent:", "embedded Triton is not installed")
    if not Path("/dev/nvidiactl").exists():
        assert "absent: no NVIDIA card here" in line("curves", "fraud_score", "cuda")
    assert any("tests/gpu: skipped" in x for x in lines)
