"""A version that was damaged on disk gives way to the one before when the server starts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from gateway.endpoints.triton.server.options import TritonOptions
from gateway.endpoints.triton.server.server import TritonServer
from gateway.models.registry import installing, workshop
from gateway.models.registry.fallback import VersionFallback
from gateway.models.registry.kinds.directory import DirectoryRegistry
from gateway.models.registry.server import over
from tests.unit.models.registry import rig
from tests.unit.models.registry.broken import swap
from tests.unit.models.registry.rig import NAME, declared, fingerprint, pulled

pytestmark = pytest.mark.anyio


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Two versions; the second was trained anew."""
    pytest.importorskip("pytriton", reason="the embedded Triton needs Python 3.11 or 3.12")
    repository = rig.repository(tmp_path)
    pulled(repository, DirectoryRegistry(rig.retrained(tmp_path)))
    return repository


def _truncated(version: Path) -> None:
    (version / "model.onnx").write_bytes((version / "model.onnx").read_bytes()[:200])


def _other_answer(version: Path) -> None:
    text = (version / "runtime.py").read_bytes()
    (version / "runtime.py").write_bytes(swap(text, b"/ 2}", b"/ 3}"))


DAMAGED: dict[str, Callable[[Path], object]] = {
    "truncated": _truncated,
    "a file is gone": lambda version: (version / "model.py").unlink(),
    "another answer": _other_answer,
}


async def served(repository: Path) -> int:
    """The version that a server which starts over the repository serves, by its own canary."""
    options = TritonOptions((repository,), stop_grace_s=1.0, start_timeout_s=45.0)
    async with TritonServer(options, fall_back=VersionFallback(repository)) as server:
        assert NAME not in server.unavailable
        (ours,) = over(repository, None)
        version = await asyncio.to_thread(ours.serving, NAME)
        await asyncio.to_thread(ours.ask, declared(repository), version, 2)
        return version


@pytest.mark.parametrize("how", DAMAGED)
async def test_a_damaged_version_gives_way_to_the_one_before(how: str, repository: Path) -> None:
    DAMAGED[how](repository / NAME / "2")
    assert await served(repository) == 1
    with workshop.opened(repository, NAME) as shop:
        assert (shop.versions(), shop.withdrawn()) == ([1], [2])


async def test_versions_that_work_stay_and_one_that_was_put_right_comes_back(
    repository: Path,
) -> None:
    before = fingerprint(repository)
    assert await served(repository) == 2
    assert fingerprint(repository) == before
    with workshop.opened(repository, NAME) as shop:
        installing.take_out(shop, [2])
    assert await served(repository) == 1
    with workshop.opened(repository, NAME) as shop:
        installing.roll_back(shop, 2, [])
    assert fingerprint(repository) == before


async def test_a_model_whose_only_version_has_no_code_keeps_no_other_from_serving(
    repository: Path,
) -> None:
    other = repository / "other"
    (other / "1").mkdir(parents=True)
    (other / "config.pbtxt").write_text('backend: "python"\n')
    assert await served(repository) == 2
    assert not (other / "1").exists()


async def test_where_no_version_works_nothing_is_taken_out(repository: Path) -> None:
    for number in (1, 2):
        _truncated(repository / NAME / str(number))
    options = TritonOptions((repository,), stop_grace_s=1.0, start_timeout_s=45.0)
    async with TritonServer(options, fall_back=VersionFallback(repository)) as server:
        assert list(server.unavailable) == [NAME]
    with workshop.opened(repository, NAME) as shop:
        assert (shop.versions(), shop.withdrawn()) == ([1, 2], [])
