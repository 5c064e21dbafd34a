"""`spillway prepare` compiles what a start needs, and the start finds it."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from gateway.classify.gate.armed import ArmedGate, known
from gateway.classify.patterns.store import BlobStore
from gateway.classify.scan_workers.pool import ScanPool
from gateway.classify.scan_workers.spec import worker_spec
from gateway.config import ClassifySettings

SETTINGS = ClassifySettings(
    restrict=("US_SSN",), deny_list=("Falcon",), names={"engine": "off"}
)  # a small gate, and a pattern that no other settings have
CONFIG = """\
classify: {restrict: [US_SSN], deny_list: [Falcon], names: off}
endpoints:
  gpu: {kind: triton, zone: onprem, grpc: "127.0.0.1:1"}
models: {}
"""


def prepare(cache: Path, config: Path) -> subprocess.CompletedProcess[str]:
    config.write_text(CONFIG)
    return subprocess.run(
        [sys.executable, "-m", "gateway", "prepare", "--config", str(config)],
        env={**os.environ, "XDG_CACHE_HOME": str(cache)},
        capture_output=True,
        text=True,
        check=False,
        timeout=800,
    )


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module")
def first(cache: Path) -> subprocess.CompletedProcess[str]:
    return prepare(cache, cache / "spillway.yaml")


def test_it_compiles_once_and_tells_of_it(
    cache: Path, first: subprocess.CompletedProcess[str]
) -> None:
    assert first.returncode == 0, first.stderr
    assert "compiling the pattern databases" in first.stderr
    assert "✓ pattern databases: compiled and kept" in first.stderr
    assert first.stdout == ""
    kinds = {f.name.partition("-")[0] for f in (cache / "spillway" / "patterns").iterdir()}
    assert len(kinds) == 3
    assert kinds > {"gate", "regex"}
    again = prepare(cache, cache / "spillway.yaml")
    assert again.returncode == 0
    assert "there already" in again.stderr
    assert "compiling" not in again.stderr


def test_a_start_finds_its_gate_at_once(
    cache: Path, first: subprocess.CompletedProcess[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))

    async def started() -> tuple[bool, str | None]:
        pool = ScanPool(worker_spec(SETTINGS))
        await pool.start()
        gate = ArmedGate(BlobStore.for_user(), nice=0)
        try:
            await gate.arm(known(pool.needs), worker_spec(SETTINGS).canaries)
            return gate.armed, gate.refused
        finally:
            await gate.aclose()
            await pool.aclose()

    def written() -> set[tuple[str, int]]:
        files = (cache / "spillway" / "patterns").iterdir()
        return {(file.name, file.stat().st_ino) for file in files}

    before = written()
    assert asyncio.run(started()) == (True, None)
    assert written() == before  # nothing was missing


def test_a_cache_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    ended = prepare(tmp_path / "file", tmp_path / "spillway.yaml")
    assert ended.returncode == 1
    assert "the cache cannot be written" in ended.stderr
    assert "compiling" not in ended.stderr, "it is told before the work"
