"""Long texts have time by their length and by their call's budget, one after the other."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from gateway.classify import ScanLate
from gateway.classify.scan_workers.pool import LONG, ScanPool
from gateway.classify.verdicts.budget import ReadingBudget
from gateway.config import ClassifySettings
from gateway.core import ambient
from gateway.core.types import Finding
from tests.unit.classify.test_classify_pool import spec


class Scanner:
    """Finds nothing, and notes what it was given."""

    def __init__(self) -> None:
        self.budgets_s: list[float] = []

    async def start(self) -> None: ...

    async def scan(self, texts: Sequence[str], budget_s: float) -> list[list[Finding]]:
        self.budgets_s.append(budget_s)
        return [[] for _ in texts]

    async def aclose(self) -> None: ...


def say(size: int) -> dict[str, Any]:
    text = ("clear words " * (size // 12 + 1))[:size]
    return {"model": "chat", "messages": [{"role": "user", "content": text}]}


@pytest.mark.parametrize(
    ("size", "call_s", "least_s", "most_s"),
    [
        (1_000, 60.0, 2.0, 2.0),
        (LONG - 100, 60.0, 2.0, 2.0),
        (5 * LONG, 60.0, 10.0, 10.1),
        (16 * LONG, 60.0, 29.0, 30.0),  # half of what the call has
        (16 * LONG, 10.0, 4.0, 5.0),
        (16 * LONG, 3.0, 1.8, 2.0),
        (16 * LONG, 0.5, 0.0, 0.5),
    ],
)
def test_time_for_reading_follows_length_and_the_calls_budget(
    size: int, call_s: float, least_s: float, most_s: float, kit: Any
) -> None:
    scanner = Scanner()
    classifier = kit.make_classifier(scanner, clock=lambda: 0.0)
    found = asyncio.run(classifier.classify(kit.make_request(say(size), budget_s=call_s)))
    assert found.reason == "clear"
    assert least_s <= scanner.budgets_s[0] <= most_s


def test_more_text_than_the_cap_is_restricted(kit: Any) -> None:
    scanner = Scanner()
    most = ClassifySettings().max_scan_bytes
    classifier = kit.make_classifier(scanner)
    found = asyncio.run(classifier.classify(kit.make_request(say(most + 100), budget_s=60.0)))
    assert (found.reason, scanner.budgets_s) == ("over_cap", [])


def budget() -> ReadingBudget:
    return ReadingBudget(60.0, ambient.monotonic_s)


async def test_one_long_text_is_read_at_a_time(kit: Any) -> None:
    reads, order, started_s = budget(), [], ambient.monotonic_s()
    request = kit.make_request(say(100), budget_s=600.0)
    late = kit.make_request(say(100), budget_s=0.0)
    begun, goes_on = asyncio.Event(), asyncio.Event()

    async def first(_: float) -> None:
        begun.set()
        await goes_on.wait()
        order.append("first")

    async def other(name: str) -> None:
        order.append(name)

    one = asyncio.create_task(reads.read(request, started_s, LONG + 1, first))
    await begun.wait()
    second = reads.read(request, started_s, LONG + 1, lambda _: other("second"))
    two = asyncio.create_task(second)
    await reads.read(request, started_s, LONG, lambda _: other("short"))
    with pytest.raises(ScanLate):
        await reads.read(late, started_s - 600.0, LONG + 1, lambda _: other("late"))
    goes_on.set()
    await asyncio.gather(one, two)
    assert order == ["short", "first", "second"]


async def test_a_long_read_that_fails_gives_its_turn_back(kit: Any) -> None:
    async def fails(_: float) -> None:
        raise ScanLate

    async def reads_it(_: float) -> str:
        return "read"

    reads, started_s = budget(), ambient.monotonic_s()
    request = kit.make_request(say(100), budget_s=600.0)
    for _ in range(3):
        with pytest.raises(ScanLate):
            await reads.read(request, started_s, LONG + 1, fails)
    assert await reads.read(request, started_s, LONG + 1, reads_it) == "read"


async def test_a_second_scanner_is_started_for_the_first_long_text() -> None:
    pool = ScanPool(spec(), 1, 8)
    await pool.start()
    try:
        await pool.scan(["short"], 20.0)
        assert len(pool._workers) == 1
        await pool.scan(["long " * LONG], 20.0)
        await asyncio.gather(*pool._tasks)
        assert len(pool._workers) == 2
        await pool.scan(["long " * LONG], 20.0)
        assert pool._size == 2
    finally:
        await pool.aclose()


pytestmark = pytest.mark.anyio
