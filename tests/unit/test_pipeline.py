"""The life of one call: what the caller is told, what is written down, and that it ends once."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from gateway.accounting.records import Durable, RecordUnwritable
from gateway.config import LimitSettings, QueueSettings
from gateway.core.errors import (
    DeadlineExceeded,
    Draining,
    Forbidden,
    GatewayError,
    ModelFailed,
    OnpremUnavailable,
    Saturated,
    UpstreamBusy,
    UpstreamError,
    UpstreamFailed,
    UpstreamUnreachable,
)
from gateway.core.types import ONPREM_ONLY, Classification, InferenceRequest, Sensitivity, Zone
from gateway.scheduling.routing.policy import Policy
from gateway.server import status
from tests.unit.harness import (
    BUG,
    FAILS,
    HANGS,
    REFUSES,
    UNREACHABLE,
    MemoryLog,
    Plan,
    Rig,
    ScriptedClassifier,
    Setup,
    cloud,
    onprem,
    request,
)

pytestmark = pytest.mark.leaping

STREAM = Plan(frames=3, tokens=42)
NO_ROOM = Setup(limits=LimitSettings(max_concurrent=1))


# S7: what the caller is told


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
async def test_the_caller_is_told_where_its_call_went_and_why(streamed: bool) -> None:
    rig = Rig(onprem(STREAM), cloud(STREAM))
    for kind, reason in (("clear", "onprem_room"), ("restricted", "restricted")):
        told = (await rig.call(request(kind, streamed=streamed))).placement
        assert told is not None
        assert (told.zone, told.endpoint, told.attempts) == (Zone.ONPREM, "gpu", 1)
        assert told.reason == reason
        assert told.sensitivity is Sensitivity(kind)


async def test_the_caller_is_told_how_many_endpoints_were_tried() -> None:
    rig = Rig(onprem(FAILS), cloud())
    told = (await rig.call(request("clear"))).placement
    assert told is not None
    assert (told.zone, told.endpoint, told.attempts) == (Zone.CLOUD, "cloud", 2)
    assert told.reason == "failover"


# M4: nowhere to go


@pytest.mark.parametrize("state", ["down", "ejected", "full", "fails"])
async def test_a_restricted_call_without_a_gpu_is_refused_and_never_leaves(state: str) -> None:
    rig = Rig(
        onprem(UNREACHABLE if state == "fails" else HANGS),
        cloud(),
        setup=Setup(queue=QueueSettings(max_waiting=1)),
    )
    waiting = []
    if state == "down":
        rig.registry.states["gpu"].up = False
    elif state == "ejected":
        rig.eject("gpu")
    elif state == "full":
        waiting = [asyncio.create_task(rig.call(request("restricted"))) for _ in range(2)]
        await asyncio.sleep(0)
    ended = await rig.call(request("restricted"))
    kind, *told = (
        (Saturated, "queue_full", 429, "RESOURCE_EXHAUSTED")
        if state == "full"
        else (OnpremUnavailable, "onprem_unavailable_restricted", 503, "UNAVAILABLE")
    )
    assert isinstance(ended.error, kind)
    error = ended.error
    assert [error.reason, error.http_status, error.grpc_status] == told
    assert error.retry_after_s is not None
    assert rig.cloud_seen == []
    if state != "fails":
        clear = await rig.call(request("clear"))
        assert clear.placement is not None
        assert clear.placement.zone is Zone.CLOUD, "there was a place for it, had it been clear"
    await asyncio.gather(*waiting)


# M5: what the caller allows


async def test_a_call_that_asked_to_stay_is_never_sent_out() -> None:
    rig = Rig(onprem(FAILS), cloud())
    for _ in range(9):
        ended = await rig.call(replace(request("clear"), zones=ONPREM_ONLY))
        assert isinstance(ended.error, GatewayError)
    assert rig.cloud_seen == []


async def test_a_call_that_asked_for_the_cloud_and_is_restricted_stays() -> None:
    rig = Rig(onprem(), cloud())
    ended = await rig.call(replace(request("restricted"), zones=frozenset({Zone.CLOUD})))
    assert isinstance(ended.error, OnpremUnavailable)
    assert rig.cloud_seen == []


# C1: what cannot be read


@pytest.mark.parametrize(
    "reason", ["late", "failed", "unscannable", "undeclared", "busy", "taint_lost"]
)
async def test_a_call_that_could_not_be_read_stays_or_is_refused(reason: str) -> None:
    for block in (False, True):
        classifier = ScriptedClassifier(reason=reason)
        rig = Rig(onprem(), cloud(), setup=Setup(classifier=classifier, block_unknown=block))
        ended = await rig.call(request("restricted"))
        assert rig.cloud_seen == []
        if block:
            assert isinstance(ended.error, Forbidden)
            assert ended.reason == "unknown_blocked"
            assert rig.sites["gpu"].connector.seen == []
        else:
            assert ended.placement is not None
            assert ended.placement.zone is Zone.ONPREM


@pytest.mark.parametrize("reason", ["labelled", "tainted", "category:mergers", "hook:guardrail"])
async def test_a_call_that_is_known_to_be_restricted_without_reading_is_not_blocked(
    reason: str,
) -> None:
    classifier = ScriptedClassifier(reason=reason)
    rig = Rig(onprem(), cloud(), setup=Setup(classifier=classifier, block_unknown=True))
    ended = await rig.call(request("restricted"))
    assert ended.placement is not None
    assert ended.placement.zone is Zone.ONPREM
    assert rig.cloud_seen == []


async def test_blocking_the_unread_does_not_block_what_was_read() -> None:
    rig = Rig(onprem(), setup=Setup(block_unknown=True))
    for kind in ("clear", "restricted"):
        assert (await rig.call(request(kind))).error is None


async def test_a_scan_that_uses_up_the_budget_ends_the_call_at_its_deadline() -> None:
    rig = Rig(onprem(), cloud(), setup=Setup(classifier=ScriptedClassifier(takes_s=1.0)))
    ended = await rig.call(request("clear", 1.0))
    assert isinstance(ended.error, DeadlineExceeded)
    assert rig.cloud_seen == rig.sites["gpu"].connector.seen == []


# Ends


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize(
    ("plan", "outcome", "reason"),
    [
        (STREAM, "served", "onprem_only"),
        (FAILS, "failed", "upstream_failed"),
        (REFUSES, "rejected", "upstream_refused"),
        (HANGS, "expired", "deadline_exceeded"),
        (BUG, "failed", "internal"),
    ],
    ids=["served", "failed", "rejected", "expired", "bug"],
)
async def test_every_call_ends_once_in_record_metrics_and_gauges(
    plan: Plan, outcome: str, reason: str, streamed: bool
) -> None:
    rig = Rig(onprem(plan))
    await rig.call(request("clear", streamed=streamed))
    (ends,) = rig.log.ends().values()
    assert ends == [outcome]
    assert rig.log.lines[-1]["end_reason"] == reason
    counted = [
        (sample.labels["outcome"], sample.labels["reason"], sample.value)
        for metric in rig.metrics.registry.collect()
        for sample in metric.samples
        if sample.name == "spillway_calls_total"
    ]
    assert counted == [(outcome, reason, 1.0)]
    assert rig.leftovers() == {}


async def test_a_call_refused_at_the_entrance_ends_once_too() -> None:
    rig = Rig(onprem(HANGS), setup=NO_ROOM)
    inside = asyncio.create_task(rig.call(request("restricted")))
    await asyncio.sleep(0)
    refused = await rig.call(request("clear"))
    assert isinstance(refused.error, Saturated)
    assert refused.error.retry_after_s
    assert rig.admission.inside == 1, "the one that hangs"
    await inside
    assert rig.leftovers() == {}
    assert sorted(e for (e,) in rig.log.ends().values()) == ["expired", "shed"]


class SlowLog(MemoryLog):
    """Records are durable when the test says so."""

    durable: Durable

    def append(self, record: Mapping[str, Any]) -> Durable:
        super().append(record)
        self.durable = asyncio.get_running_loop().create_future()
        return self.durable


@pytest.mark.parametrize("streamed", [False, True])
async def test_an_answer_waits_until_its_record_is_durable(streamed: bool) -> None:
    rig = Rig(onprem(STREAM if streamed else Plan()))
    rig.accounts.log = log = SlowLog()
    handling = asyncio.create_task(rig.pipeline.handle(request(streamed=streamed)))
    await asyncio.sleep(0.1)
    assert rig.sites["gpu"].connector.seen, "the server works meanwhile"
    assert not handling.done()
    log.durable.set_result(None)
    await (await handling).frames.aclose()


async def test_the_record_of_a_stream_is_written_before_its_first_frame() -> None:
    rig = Rig(onprem(STREAM))
    reply = await rig.pipeline.handle(request("restricted", streamed=True))
    (line,) = rig.log.lines
    assert line["outcome"] == "sent"
    assert line["sensitivity"] == "restricted"
    assert [a["endpoint"] for a in line["attempts"]] == ["gpu"]
    await reply.frames.aclose()


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
async def test_without_its_record_no_answer_is_released(streamed: bool) -> None:
    rig = Rig(onprem(Plan(frames=3, close_s=0.01)))
    rig.log.full = True
    ended = await rig.call(request("clear", streamed=streamed))
    assert isinstance(ended.error, RecordUnwritable)
    assert ended.frames == ()
    assert rig.leftovers() == {}


@pytest.mark.parametrize("kind", ["clear", "restricted"])
async def test_while_nothing_can_be_recorded_no_call_is_read_or_sent(kind: str) -> None:
    rig = Rig(onprem(Plan()), cloud(Plan()))
    rig.log.shut = True
    ended = await rig.call(request(kind))
    assert isinstance(ended.error, RecordUnwritable)
    assert rig.log.lines[-1]["sensitivity"] is None, "it was not even read"
    assert rig.log.lines[-1]["attempts"] == []
    assert rig.leftovers() == {}


async def test_tokens_that_the_answer_tells_are_recorded() -> None:
    rig = Rig(onprem(STREAM))
    for streamed in (False, True):
        await rig.call(request("clear", streamed=streamed))
    assert [line["total_tokens"] for line in rig.log.lines if line["outcome"] == "served"] == [
        42,
        42,
    ]


# O7: draining


async def test_a_stopping_gateway_takes_no_new_calls_and_finishes_the_open_ones() -> None:
    rig = Rig(onprem(Plan(frames=3, frame_s=0.1)))
    stream = asyncio.create_task(rig.call(request("clear", streamed=True)))
    await asyncio.sleep(0.15)
    rig.admission.draining = True
    refused = await rig.call(request("clear"))
    assert isinstance(refused.error, Draining)
    assert len((await stream).frames) == 3
    await rig.accounts.quiet()


@pytest.mark.parametrize("where", ["classified", "queued", "at-the-endpoint", "streaming"])
async def test_what_is_cut_ends_with_the_reason_and_not_as_if_its_caller_had_left(
    where: str,
) -> None:
    plan = Plan(frames=3, hangs_at=1) if where == "streaming" else HANGS
    setup = Setup(classifier=ScriptedClassifier(takes_s=50.0 if where == "classified" else 0.0))
    rig = Rig(onprem(plan), setup=setup)
    tasks = [asyncio.create_task(rig.call(request("restricted", 100.0, streamed=True)))]
    if where == "queued":
        tasks.append(asyncio.create_task(rig.call(request("restricted", 100.0))))
    await asyncio.sleep(1.0)
    rig.pipeline.cut()
    for ended in await asyncio.gather(*tasks):
        assert isinstance(ended.error, Draining)
    await rig.accounts.quiet()
    assert {e for (e,) in rig.log.ends().values()} == {"shed"}
    assert rig.leftovers() == {}


async def test_a_caller_who_leaves_while_the_gateway_stops_is_still_one_who_left() -> None:
    rig = Rig(onprem(HANGS))
    task = asyncio.create_task(rig.call(request("restricted", 100.0)))
    await asyncio.sleep(1.0)
    task.cancel()
    ended = await task
    assert isinstance(ended.error, asyncio.CancelledError)
    assert list(rig.log.ends().values()) == [["cancelled"]]


# O3: explain


async def _explained_and_done(rig: Rig, call: InferenceRequest) -> tuple[str, str]:
    explained = await rig.pipeline.explain(call)
    assert [s.connector.seen for s in rig.sites.values()] == [[] for _ in rig.sites]
    assert rig.log.lines == []
    ended = await rig.call(call)
    if explained.decision is None:
        assert explained.refusal is not None
        return explained.refusal.reason, ended.reason
    assert ended.placement is not None
    chosen = explained.decision.attempts[0].name
    assert chosen == ended.placement.endpoint
    return explained.decision.reason, ended.placement.reason


@pytest.mark.parametrize("kind", ["clear", "restricted"])
@pytest.mark.parametrize("state", ["well", "down", "late"])
@pytest.mark.parametrize("policy", [Policy(), Policy(spill=False)])
async def test_explain_sends_nothing_and_says_what_is_then_done(
    kind: str, state: str, policy: Policy
) -> None:
    rig = Rig(onprem(), cloud(), setup=Setup(policy=policy))
    rig.registry.states["gpu"].up = state != "down"
    call = request(kind, 0.0 if state == "late" else 1.0)
    told, done = await _explained_and_done(rig, call)
    assert told == done


async def test_explain_has_the_call_read_as_one_that_is_not_served() -> None:
    """Else its restricted turn would taint those that follow it (C10)."""

    class Remembering(ScriptedClassifier):
        def __init__(self) -> None:
            super().__init__()
            self.served: list[bool] = []

        async def classify(self, request: InferenceRequest) -> Classification:
            self.served.append(not request.explained)
            return await super().classify(request)

    classifier = Remembering()
    rig = Rig(onprem(), cloud(), setup=Setup(classifier=classifier))
    await rig.pipeline.explain(request("restricted"))
    await rig.call(request("restricted"))
    assert classifier.served == [False, True]


# C12: no content in what is kept


def _chain(error: BaseException) -> list[BaseException]:
    found: list[BaseException] = []
    todo: list[BaseException | None] = [error]
    while todo:
        one = todo.pop()
        if one is not None and one not in found:
            found.append(one)
            todo += [one.__cause__, one.__context__]
    return found


@pytest.mark.parametrize("make", [UpstreamFailed, UpstreamUnreachable, UpstreamBusy, ModelFailed])
async def test_what_an_endpoint_said_of_a_call_is_kept_nowhere(
    make: type[UpstreamError], caplog: pytest.LogCaptureFixture
) -> None:
    """Its words may quote the call. The caller may read them, and nobody else."""
    caplog.set_level(logging.DEBUG)
    rig = Rig(onprem(Plan(error=lambda: make("expected digits, got MARKER"))), cloud())
    ended = [await rig.call(request("restricted")) for _ in range(4)]
    assert "MARKER" not in str(rig.log.lines)
    assert "MARKER" not in rig.metrics.render().decode()
    assert "MARKER" not in str(status.report(rig.registry.states))
    error = ended[0].error
    assert error is not None
    kept = [repr(e) for e in _chain(error) if not isinstance(e, ModelFailed)]
    assert "MARKER" not in "".join(kept)
    assert "MARKER" not in caplog.text


async def test_a_bug_that_quotes_the_call_is_recorded_by_its_reason_alone(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    rig = Rig(onprem(Plan(error=lambda: ValueError("expected digits, got MARKER"))))
    await rig.call(request("restricted"))
    assert rig.log.lines[-1]["end_reason"] == "internal"
    assert "MARKER" not in str(rig.log.lines)
    assert "MARKER" not in caplog.text
