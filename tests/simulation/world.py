"""One world from its beginning until it is quiet: callers, weather, a drain, and a witness."""

from __future__ import annotations

import asyncio
import contextlib
import gc
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from random import Random

from gateway.core.ambient import Sources, drawn_from
from gateway.core.deadline import Deadline
from gateway.core.operations.chat import CHAT
from gateway.core.reply import Frame, Handled, JsonBody
from gateway.core.types import DocumentCall, InferenceRequest, Payload, TensorCall, WireProtocol
from tests.simulation.composition import Composed, composed
from tests.simulation.loop import Stuck, VirtualLoop
from tests.simulation.plan import START_S, CallPlan, WorldPlan, planned
from tests.simulation.witness import (
    CLOSES_IN_S,
    GRACE_S,
    CallStory,
    Trace,
    Violation,
    Witness,
)

_QUIET_S = 1.0  # closings that outlived their caller


@dataclass(frozen=True, slots=True)
class Ran:
    """What came of one seed."""

    seed: int
    digest: str
    violations: tuple[Violation, ...]
    steps: int
    calls: int
    attempts: int
    outcomes: tuple[str, ...]
    trace: tuple[str, ...] = ()


class _Leaves(Exception):
    """A caller has read enough."""


class _Halt(Exception):
    """Something is broken: what follows from it is of no interest."""


class World:
    def __init__(self, plan: WorldPlan, keep_trace: bool = False) -> None:
        self.plan = plan
        self.trace = Trace(keep_trace)
        self._loop = VirtualLoop(self._after_step, self._complained, START_S)
        self._clock = self._loop.time
        self.witness = Witness(plan, self.trace, self._clock)
        self._gateway: Composed | None = None
        self._callers: set[asyncio.Task[None]] = set()
        self._done = asyncio.Event()  # all callers have come and gone

    def run(self) -> None:
        loop, halted = self._loop, True
        with drawn_from(_sources(self.plan.seed, loop)):
            try:
                loop.run_until_complete(self._main())
                halted = False
            except Stuck as stuck:
                self.witness.broken("D1", str(stuck))
            except _Halt:
                pass
            finally:
                if halted:
                    _wind_up(loop)
                loop.tasks.clear()
                loop.close()

    def ran(self) -> Ran:
        stories = self.witness.calls.values()
        return Ran(
            seed=self.plan.seed,
            digest=self.trace.digest,
            violations=tuple(self.witness.violations),
            steps=self._loop.steps,
            calls=len(stories),
            attempts=sum(len(s.opened) for s in stories),
            outcomes=tuple(outcome for s in stories for outcome in s.settled),
            trace=tuple(self.trace.lines or ()),
        )

    # What is asked after every step

    def _after_step(self) -> None:
        gateway = self._gateway
        if gateway is not None and gateway.lowest() < 0:
            below = [f"{what}: {count}" for what, count in gateway.counts() if count < 0]
            self.witness.broken("A2", "; ".join(below))
        if self.witness.violations:
            raise _Halt

    def _complained(self, what: str) -> None:
        self.witness.broken("A2", f"asyncio: {what}")

    # The world's course

    async def _main(self) -> None:
        plan = self.plan
        gateway = self._gateway = composed(plan, self.witness, self._clock)
        gateway.parts.registry.assume_up()
        watching = asyncio.ensure_future(gateway.look_after())
        for call in plan.calls:
            self._loop.call_at(START_S + call.arrives_s, self._arrives, gateway, call)
        events = [
            asyncio.ensure_future(self._at(at_s, event))
            for at_s, event in ((plan.drain_at_s, self._drain), (plan.reload_at_s, self._reload))
            if at_s is not None
        ]
        await self._done.wait()
        await asyncio.gather(*events)
        if watching.done():
            self.witness.broken("A6", "nobody looks after the endpoints any more")
        watching.cancel()
        await asyncio.wait((watching,))
        await asyncio.sleep(_QUIET_S)
        await gateway.ledger.flush()
        sums = "SELECT call, endpoint, COUNT(*), SUM(nano_usd), SUM(gpu_ns) FROM attempts"
        self.witness.kept(gateway.kept.read(sums + " GROUP BY call, endpoint"))
        gateway.kept.close()
        self._quiet(gateway)

    async def _at(self, at_s: float, event: object) -> None:
        await asyncio.sleep(at_s)
        assert callable(event)
        await event()

    async def _drain(self) -> None:
        assert self._gateway is not None
        self.witness.decisions("drains")
        await self._gateway.drain(self.plan.drain_s)
        self._loop.call_later(GRACE_S, self._all_ended)

    def _all_ended(self) -> None:
        for story in self.witness.calls.values():
            if not story.plan.explained:
                self.witness.overdue(story)

    async def _reload(self) -> None:
        assert self._gateway is not None
        self.witness.decisions("reloads")
        self._gateway.reload()

    def _quiet(self, gateway: Composed) -> None:
        for what, count in gateway.counts():
            if count:
                self.witness.broken("A2", f"{what}: {count} when all is quiet")
        self.witness.quiet()
        left = len(self._loop.running()) - 1  # this one runs
        if left:
            self.witness.broken("A2", f"{left} tasks run on when all is quiet")

    # Callers

    def _arrives(self, gateway: Composed, call: CallPlan) -> None:
        request = self._request(call)
        policy, narrowed = gateway.policy, gateway.narrowed
        story = CallStory(call, request.deadline.at_s, policy.spill, narrowed)
        self.witness.calls[call.number] = story
        self.witness.decisions("arrives", call.number)
        asking = self._explain if call.explained else self._ask
        task = self._loop.create_task(asking(gateway, request, story))
        self._callers.add(task)
        task.add_done_callback(self._gone)
        due_s = max(self._clock(), story.deadline_s) + GRACE_S + 1e-6
        self._loop.call_at(due_s, self.witness.overdue, story)
        if call.leaves_s is not None:
            self._loop.call_later(call.leaves_s, self._leaves, task, story)

    def _gone(self, task: asyncio.Task[None]) -> None:
        self._callers.discard(task)
        if not self._callers and len(self.witness.calls) == len(self.plan.calls):
            self._done.set()

    def _leaves(self, task: asyncio.Task[None], story: CallStory) -> None:
        if task.done():
            return
        self.witness.decisions("leaves", story.plan.number)
        story.left_s = self._clock()
        task.cancel()
        self._loop.call_later(story.plan.leaves_again_s, task.cancel)
        self._loop.call_later(GRACE_S, self.witness.overdue, story)

    async def _explain(
        self, gateway: Composed, request: InferenceRequest, story: CallStory
    ) -> None:
        with self._telling(story):
            async with asyncio.timeout_at(story.deadline_s):  # as the operator's front does
                await gateway.pipelines[-1].explain(request)

    async def _ask(self, gateway: Composed, request: InferenceRequest, story: CallStory) -> None:
        """Be a front: hand the frames on, close them on every exit."""
        with self._telling(story):
            reply = await gateway.pipelines[-1].handle(request)
            self.witness.released(story, reply.placement)
            try:
                with contextlib.suppress(_Leaves):
                    if not self._has_enough(story):  # else it leaves before it reads
                        await reply.frames.deliver(Handled(partial(self._read, story)))
                        story.whole = True
            finally:
                await asyncio.shield(reply.frames.aclose())

    async def _read(self, story: CallStory, frame: Frame) -> None:
        assert isinstance(frame, JsonBody)
        story.frames.append(frame.body)
        if self._has_enough(story):
            raise _Leaves
        if story.plan.reads_s:
            await asyncio.sleep(story.plan.reads_s)

    def _has_enough(self, story: CallStory) -> bool:
        most = story.plan.leaves_after_frames
        if most is None or len(story.frames) < most:
            return False
        story.left_s = self._clock()
        return True

    @contextlib.contextmanager
    def _telling(self, story: CallStory) -> Iterator[None]:
        """A front meets every error; here the witness judges it."""
        try:
            yield
        except (Exception, asyncio.CancelledError) as exc:  # noqa: BLE001 - a front meets them all
            story.error = exc
        finally:
            self.witness.ended(story)
            self._loop.call_later(GRACE_S, self.witness.overdue, story)
            self._loop.call_later(CLOSES_IN_S, self.witness.still_running, story)

    def _request(self, call: CallPlan) -> InferenceRequest:
        return InferenceRequest(
            id=str(call.number),
            protocol=WireProtocol.OPENAI,
            tenant=call.tenant,
            model=call.model,
            payload=_payload(call),
            deadline=Deadline.after(call.budget_s, self._clock),
            priority=call.priority,
            zones=call.zones,
            pseudonymise=call.masked,
            received_s=self._clock(),
        )


def _payload(call: CallPlan) -> Payload:
    if not call.tensors:
        return DocumentCall(CHAT, {"user": call.number}, call.streamed)
    parameters = {"call": call.number} | ({"sequence_id": 7} if call.stateful else {})
    return TensorCall((), parameters=parameters, streamed=call.streamed)


def _sources(seed: int, loop: VirtualLoop) -> Sources:
    rng = Random(~seed)
    return Sources(
        monotonic_s=loop.time,
        wall_s=lambda: 1.7e9 + loop.now_s,
        random_bytes=lambda count: rng.getrandbits(8 * count).to_bytes(count),
    )


def _wind_up(loop: VirtualLoop) -> None:
    """A world that was halted comes to an end, and nobody is to hear of it."""
    loop.unwatched()
    left = loop.running()
    for task in left:
        task.cancel()
    with contextlib.suppress(Stuck):
        if left:
            loop.run_until_complete(asyncio.wait(left, timeout=_QUIET_S))


def ran(seed: int, keep_trace: bool = False) -> Ran:
    world = World(planned(seed), keep_trace)
    world.run()
    gc.collect()  # whatever failed and was never asked for is told of now
    return world.ran()
