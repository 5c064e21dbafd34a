"""Who lives: refusal counts at once, silence after a while, and one's own absence not at all."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest

from gateway.accounting.metrics import Metrics
from gateway.cluster import Answers
from gateway.cluster.membership import Membership, pack_announcement, unpack_announcement
from gateway.cluster.view import ClusterView, PeerAnnouncement
from gateway.core.deadline import Deadline
from gateway.core.errors import DeadlineExceeded, UpstreamUnreachable
from tests.unit.cluster.rig import settings
from tests.unit.harness import LeapingLoop, now_s

pytestmark = pytest.mark.leaping

OWN, PEER = "east", "west"


@dataclass
class FakeLink:
    """A peer that answers, refuses or says nothing, as it is told."""

    how: str = "answers"
    told: PeerAnnouncement = field(default_factory=PeerAnnouncement)
    asked_s: list[float] = field(default_factory=list)
    cuts: int = 0

    async def state(self, state: bytes, deadline: Deadline) -> bytes:
        self.asked_s.append(now_s())
        if self.how == "refuses":
            raise UpstreamUnreachable("no connection")
        if self.how == "answers":
            return pack_announcement(self.told)
        await asyncio.sleep(max(0.0, deadline.remaining_s()))
        raise DeadlineExceeded("silence")

    async def forward(
        self, message: Sequence[bytes], deadline: Deadline, *, repeatable: bool
    ) -> Answers:
        raise AssertionError("nobody forwards here")

    def cut(self) -> None:
        self.cuts += 1

    async def aclose(self) -> None:
        pass


@dataclass
class Rig:
    link: FakeLink
    view: ClusterView
    members: Membership


@asynccontextmanager
async def watching(owner: str = PEER) -> AsyncIterator[Rig]:
    link = FakeLink(told=PeerAnnouncement(frozenset({PEER})))
    told = settings(OWN, (OWN, PEER), {owner: ["gpu"]})
    view = ClusterView(
        OWN, (OWN, PEER), (owner,), now_s, dwell_s=told.dwell_s, unclaimed_s=2.0,
        on_change=lambda: members.view_changed(),
    )  # fmt: skip
    members = Membership(view, {PEER: link}, told, Metrics(), now_s)
    await members.probe_all()
    running = asyncio.create_task(members.run())
    try:
        yield Rig(link, view, members)
    finally:
        running.cancel()


async def lost_after_s(rig: Rig) -> float:
    since_s = now_s()
    while rig.view.living:
        await rig.members.changed(10.0)
        assert now_s() < since_s + 30
    return now_s() - since_s


async def test_a_peer_that_refuses_is_dead_at_the_next_look() -> None:
    async with watching() as rig:
        rig.link.how = "refuses"
        assert await lost_after_s(rig) <= 0.31
        assert rig.link.cuts >= 1
        assert rig.view.owner(PEER) == OWN


async def test_a_peer_that_is_silent_is_dead_after_the_silence_and_not_before() -> None:
    async with watching() as rig:
        rig.link.how = "hangs"
        assert 1.0 <= await lost_after_s(rig) <= 1.35
        assert rig.link.cuts >= 1


async def test_a_peer_in_doubt_is_looked_at_at_once() -> None:
    async with watching() as rig:
        await asyncio.sleep(1.0)
        rig.link.how = "refuses"
        rig.members.doubt(PEER)
        assert await lost_after_s(rig) <= 0.05


async def test_doubts_however_many_make_no_more_than_some_looks() -> None:
    async with watching() as rig:
        before = len(rig.link.asked_s)
        for _ in range(1000):
            rig.members.doubt(PEER)
            await asyncio.sleep(0.001)
        assert len(rig.link.asked_s) - before <= 50


async def test_a_peer_that_answers_calls_and_no_probe_is_busy_and_not_dead() -> None:
    async with watching() as rig:
        rig.link.how = "hangs"
        for _ in range(100):
            await asyncio.sleep(0.1)
            rig.members.heard(PEER)
        assert list(rig.view.living) == [PEER]
        assert 1.0 <= await lost_after_s(rig) <= 2.4


async def test_one_answer_in_time_is_enough() -> None:
    async with watching() as rig:
        for _ in range(20):
            rig.link.how = "hangs"
            await asyncio.sleep(0.45)
            rig.link.how = "answers"
            await asyncio.sleep(0.7)
            assert list(rig.view.living) == [PEER]


async def test_while_nobody_decides_peers_are_asked_more_often() -> None:
    async with watching() as rig:
        rig.link.told = PeerAnnouncement()
        await asyncio.sleep(1.0)
        rig.link.asked_s.clear()
        await asyncio.sleep(0.5)
        assert len(rig.link.asked_s) >= 8


async def test_who_was_stopped_itself_calls_nobody_dead_and_decides_nothing_at_first() -> None:
    async with watching(owner=OWN) as rig:
        await asyncio.sleep(0.1)
        assert rig.view.owner(OWN) == OWN
        rig.link.told = PeerAnnouncement(frozenset({OWN}))  # it stands in meanwhile
        stopped(5.0)
        await asyncio.sleep(0.31)
        assert list(rig.view.living) == [PEER]
        assert rig.view.owner(OWN) == PEER


async def test_a_probe_that_was_under_way_when_this_process_stopped_says_nothing() -> None:
    async with watching() as rig:
        rig.link.how = "hangs"
        await asyncio.sleep(0.4)  # the first of two is under way
        for _ in range(4):
            stopped(1.0)
            await asyncio.sleep(0.01)
        assert list(rig.view.living) == [PEER]
        rig.link.how = "answers"
        await asyncio.sleep(2.0)
        assert list(rig.view.living) == [PEER]


def stopped(seconds: float) -> None:
    """As SIGSTOP and SIGCONT do: time goes on and nothing happens."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, LeapingLoop)
    loop._leap.now_s += seconds


async def test_a_call_waits_for_an_owner_no_longer_than_its_budget() -> None:
    async with watching() as rig:
        rig.link.told = PeerAnnouncement()
        await asyncio.sleep(0.4)
        began_s = now_s()
        with pytest.raises(DeadlineExceeded):
            await rig.members.owner(PEER, Deadline.after(0.5, now_s))
        assert now_s() - began_s <= 0.55


@pytest.mark.parametrize("said", [b"", b"[]", b"{}", b'{"claims": 1}', b"\xff"])
def test_nonsense_is_not_taken_for_what_a_gateway_says(said: bytes) -> None:
    with pytest.raises(ValueError, match=r"Expecting|not what a gateway|can't decode"):
        unpack_announcement(said)


def test_what_a_gateway_says_comes_out_as_it_went_in() -> None:
    for told in (PeerAnnouncement(), PeerAnnouncement(frozenset({"a", "b"}), leaving=True)):
        assert unpack_announcement(pack_announcement(told)) == told
