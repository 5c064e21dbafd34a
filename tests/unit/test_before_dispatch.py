"""B8: what leaves is on record before it is sent, under the id that the cloud sees."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest

from gateway.accounting.records import Durable, RecordUnwritable
from gateway.core.errors import DeadlineExceeded
from gateway.core.types import ServedModel, Zone
from gateway.endpoints.health.canary_requests import CanaryDoors
from tests.unit.harness import FAILS, MODEL, MemoryLog, Rig, Site, cloud, onprem, request

pytestmark = pytest.mark.leaping


class SlowDisk(MemoryLog):
    """What is to leave waits for it until the test says what became of its record."""

    def __init__(self) -> None:
        super().__init__()
        self.waiting: list[Durable] = []

    def append(self, record: Mapping[str, Any]) -> Durable | None:
        super().append(record)
        sent_as = record.get("sent_as") or record.get("attempts", [{}])[-1].get("sent_as")
        if not sent_as:
            return None
        self.waiting.append(asyncio.get_running_loop().create_future())
        return self.waiting[-1]

    async def asked(self) -> Durable:
        """The next record of what is to leave."""
        async with asyncio.timeout(5):
            while not self.waiting:  # noqa: ASYNC110 - the loop leaps to its next timer
                await asyncio.sleep(0.001)
        return self.waiting.pop(0)

    def kinds(self) -> list[str]:
        return [str(line["kind"]) for line in self.written]


class Marked:
    def __init__(self, *sites: Site, before_dispatch: bool = True) -> None:
        self.rig = Rig(*sites)
        self.disk = SlowDisk()
        self.rig.accounts.log, self.rig.accounts.before_dispatch = self.disk, before_dispatch


@asynccontextmanager
async def marked_rig(*sites: Site, before_dispatch: bool = True) -> AsyncIterator[Marked]:
    marked = Marked(*sites, before_dispatch=before_dispatch)
    yield marked
    assert marked.rig.leftovers() == {}


async def test_nothing_is_sent_to_the_cloud_before_it_is_on_record() -> None:
    async with marked_rig(cloud()) as marked:
        call = asyncio.create_task(marked.rig.call(request(tenant="clinic")))
        durable = await marked.disk.asked()
        await asyncio.sleep(0.1)
        assert marked.rig.cloud_seen == []
        durable.set_result(None)
        assert (await call).error is None
        (sent,) = marked.rig.cloud_seen
        told, end = marked.disk.written
        assert (told["kind"], end["kind"]) == ("call", "end")
        assert told["attempts"][0]["sent_as"] == sent.id == end["attempts"][0]["sent_as"]
        assert (told["id"], told["tenant"]) == (end["id"], "clinic")
        assert (told["attempts"][0]["endpoint"], told["outcome"]) == ("cloud", "sent")


async def test_without_that_record_nothing_is_sent_and_the_caller_is_told() -> None:
    async with marked_rig(cloud()) as marked:
        call = asyncio.create_task(marked.rig.call(request()))
        (await marked.disk.asked()).set_result(RecordUnwritable("no space is left"))
        ended = await call
        assert ended.reason == "record_unwritable"
        assert marked.rig.cloud_seen == []


async def test_a_disk_that_hangs_holds_the_call_no_longer_than_its_budget() -> None:
    async with marked_rig(cloud()) as marked:
        ended = await marked.rig.call(request(budget_s=0.5))
        assert isinstance(ended.error, DeadlineExceeded)
        assert marked.rig.cloud_seen == []


async def test_a_record_that_is_durable_when_the_budget_ends_sends_nothing() -> None:
    async with marked_rig(cloud()) as marked:
        asked = request(budget_s=0.5)
        call = asyncio.create_task(marked.rig.call(asked))
        durable = await marked.disk.asked()
        await asyncio.sleep(asked.deadline.remaining_s() - 0.001)
        durable.set_result(None)
        assert isinstance((await call).error, DeadlineExceeded)
        assert marked.rig.cloud_seen == []


async def test_who_leaves_meanwhile_is_not_sent() -> None:
    async with marked_rig(cloud()) as marked:
        call = asyncio.create_task(marked.rig.call(request()))
        durable = await marked.disk.asked()
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)
        assert durable.cancelled()
        assert marked.rig.cloud_seen == []


async def test_a_cloud_that_went_out_meanwhile_is_not_sent_the_call() -> None:
    async with marked_rig(cloud()) as marked:
        call = asyncio.create_task(marked.rig.call(request()))
        durable = await marked.disk.asked()
        marked.rig.eject("cloud")
        durable.set_result(None)
        assert (await call).error is not None
        assert marked.rig.cloud_seen == []


async def test_what_stays_waits_for_nothing() -> None:
    async with marked_rig(onprem(), cloud()) as marked:
        assert (await marked.rig.call(request("restricted"))).error is None
        assert marked.disk.kinds() == ["call", "end"]
        assert marked.disk.lines[0]["attempts"][0]["sent_as"] is None


async def test_every_try_in_the_cloud_has_a_record_of_its_own() -> None:
    async with marked_rig(cloud(FAILS), cloud(name="another")) as marked:
        call = asyncio.create_task(marked.rig.call(request()))
        for _ in range(2):
            (await marked.disk.asked()).set_result(None)
        assert (await call).error is None
        assert marked.disk.kinds() == ["call", "intent", "end"]
        seen = {sent.id for sent in marked.rig.cloud_seen}
        assert len(seen) == 2
        told, intent, end = marked.disk.written
        assert seen == {told["attempts"][0]["sent_as"], intent["sent_as"]}
        assert seen == {a["sent_as"] for a in end["attempts"]}


async def test_without_the_setting_it_is_sent_while_its_record_is_written() -> None:
    async with marked_rig(cloud(), before_dispatch=False) as marked:
        call = asyncio.create_task(marked.rig.call(request()))
        durable = await marked.disk.asked()
        await asyncio.sleep(0.1)
        assert len(marked.rig.cloud_seen) == 1
        assert not call.done(), "its answer waits"
        durable.set_result(None)
        assert (await call).error is None
        (record,) = marked.disk.lines
        assert record["attempts"][0]["sent_as"] == marked.rig.cloud_seen[0].id


@pytest.mark.parametrize("before_dispatch", [True, False])
async def test_a_canary_to_the_cloud_is_on_record_too(before_dispatch: bool) -> None:
    async with marked_rig(cloud(), before_dispatch=before_dispatch) as marked:
        state, canary = marked.rig.registry.states["cloud"], request(tenant="")
        doors = CanaryDoors(marked.disk)
        sending = asyncio.create_task(doors.infer("cloud", state, canary, ServedModel(MODEL)))
        durable = await marked.disk.asked()
        assert marked.rig.cloud_seen == []
        durable.set_result(None)
        await (await sending).aclose()
        (line,) = marked.disk.lines
        assert (line["kind"], line["sent_as"]) == ("canary", marked.rig.cloud_seen[0].id)
        assert state.settings.zone is Zone.CLOUD
