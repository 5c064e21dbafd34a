"""A scan worker that is started before anybody knows what it is to scan for."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from gateway.classify.scan_workers import process
from gateway.classify.verdicts.readers import scan_pool
from gateway.config import ClassifySettings

OTHER = "tests.unit.classify.misbehaving_scanners:Finds"


@pytest.fixture(autouse=True)
def none_left() -> Iterator[None]:
    assert process._ahead is None
    yield
    assert process._ahead is None


def test_the_first_who_asks_for_one_gets_it() -> None:
    async def run() -> None:
        await process.start_ahead()
        ahead = process._ahead
        first, second = await process.started(process.FIRST), await process.started(process.FIRST)
        assert first is ahead
        assert second is not ahead
        for each in (first, second):
            each.kill()
            await each.wait()

    asyncio.run(run())


def test_it_is_not_for_another_scanner() -> None:
    async def run() -> None:
        await process.start_ahead()
        ahead = process._ahead
        other = await process.started(OTHER)
        assert other is not ahead
        for each in (other, await process.started(process.FIRST)):
            each.kill()
            await each.wait()

    asyncio.run(run())


def test_one_that_died_meanwhile_is_replaced() -> None:
    async def run() -> None:
        await process.start_ahead()
        ahead = process._ahead
        assert ahead is not None
        ahead.kill()
        await ahead.wait()
        live = await process.started(process.FIRST)
        assert live is not ahead
        live.kill()
        await live.wait()

    asyncio.run(run())


def test_it_ends_when_nobody_asks() -> None:
    """Its standard input is closed by who ends: then it has read no spec, and goes."""

    async def run() -> None:
        await process.start_ahead()
        idle = await process.started(process.FIRST)
        assert idle.stdin is not None
        idle.stdin.close()
        assert await asyncio.wait_for(idle.wait(), 60) == 0

    asyncio.run(run())


def test_it_scans_like_any() -> None:
    async def run() -> None:
        await process.start_ahead()
        ahead = process._ahead
        assert ahead is not None
        pool = scan_pool(ClassifySettings.model_validate({"profile": "patterns"}))
        await pool.start()
        try:
            found = await pool.scan(["card 4111 1111 1111 1111"], 30.0)
            assert [f.type for f in found[0]] == ["CREDIT_CARD"]
            assert ahead.returncode is None
        finally:
            await pool.aclose()
        assert ahead.returncode is not None

    asyncio.run(run())
