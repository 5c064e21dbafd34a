"""Who leaves while others ask for its lease holds nothing (B1)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from gateway.accounting.ledger.leases import Leases
from gateway.accounting.ledger.limits import EVERYBODY, BudgetLimits
from gateway.accounting.ledger.store import LeaseGrant, LeaseRequest


def test_nothing_is_put_aside_for_who_left_while_the_store_was_asked() -> None:
    async def main() -> None:
        answered = asyncio.Event()

        async def ask(
            asked: Sequence[Sequence[LeaseRequest]], free: Mapping[str, int]
        ) -> LeaseGrant:
            await answered.wait()
            return LeaseGrant({EVERYBODY: 10}, [""] * len(asked))

        leases = Leases({EVERYBODY: BudgetLimits(total=10)}, ask, lambda: 0.0)
        async with leases.asking():  # so that both wait before the first of them asks
            stays = asyncio.create_task(leases.take("ward", 4))
            leaves = asyncio.create_task(leases.take("ward", 4))
            await asyncio.sleep(0)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        leaves.cancel()
        await asyncio.wait((leaves,))
        answered.set()
        assert await stays == ""
        assert leases.has("ward", 6)

    asyncio.run(main())
