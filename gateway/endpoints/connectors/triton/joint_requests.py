"""Calls of one model that are sent at the same moment, as one request of more rows.

The queue gives the calls of a batch to their server together. Sent one by one, the server begins
with the first, and executes in several parts what should have been one; and each request has its
price, here and there. So what is opened in one turn of the event loop goes out as one request, of a
model whose rows were tried and are independent (`endpoints.batch_rows`), to servers on the
premises alone. Each call has its own deadline, leaves by itself, and gets what it would have got
alone. Where a joint request fails for what one of its calls may be the reason of, its halves are
sent one after the other, down to single calls: sent side by side, the server would join them again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Final

from gateway.core.deferred_error import DeferredError
from gateway.core.errors import (
    AnswersFull,
    GatewayError,
    ModelDead,
    UpstreamFailed,
    UpstreamRefused,
)
from gateway.core.held_bytes import JointAnswerShare
from gateway.core.reply import Frame, OneFrame, ReplyStream
from gateway.core.types import InferenceRequest, ServedModel, TensorCall
from gateway.endpoints.batch_rows.rows import JointLimit
from gateway.protocols.oip import joint
from gateway.protocols.oip.joint import Part

_MOST_BYTES: Final = 1 << 20  # of the inputs of a joint request: more is a copy that takes its time

Open = Callable[[InferenceRequest, ServedModel], Awaitable[ReplyStream]]


@dataclass(slots=True)
class _Member:
    request: InferenceRequest
    call: TensorCall
    part: Part
    answer: asyncio.Future[Frame | BaseException]


class _Group:
    """Calls that go out together."""

    def __init__(self, served: ServedModel, rows: int) -> None:
        self.served = served
        self.members: list[_Member] = []
        self.task: asyncio.Task[None] | None = None
        self._rows, self._bytes = rows, _MOST_BYTES

    def takes(self, rows: int, size: int) -> bool:
        # guard: E5.joint-rows -> return size <= self._bytes
        return rows <= self._rows and size <= self._bytes

    def add(self, request: InferenceRequest, call: TensorCall, rows: int, size: int) -> _Member:
        self._rows -= rows
        self._bytes -= size
        answer = asyncio.get_running_loop().create_future()
        member = _Member(request, call, Part(rows, call.id), answer)
        self.members.append(member)
        return member

    def left(self, member: _Member) -> None:
        """Its caller has, or has waited long enough."""
        member.answer.cancel()
        if self.task is not None and all(each.answer.done() for each in self.members):
            self.task.cancel()  # guard: E5.joint-cancel


class JointRequests:
    def __init__(self, open_alone: Open, limits: Mapping[str, JointLimit]) -> None:
        """`limits`: by model, of those whose rows are independent; they may change at any time."""
        self._open_alone = open_alone
        self._limits = limits
        self._gathering: dict[Hashable, _Group] = {}

    async def open(self, request: InferenceRequest, served: ServedModel) -> ReplyStream:
        """The connector's own `open`, with others or alone."""
        call = request.payload
        # guard: E5.independent-rows -> limit = JointLimit(64)
        limit = self._limits.get(request.model)
        if limit is None or not isinstance(call, TensorCall):
            return await self._open_alone(request, served)
        rows = joint.row_count(call)
        if not 0 < rows < limit.rows:
            return await self._open_alone(request, served)
        size = sum([len(tensor.data) for tensor in call.inputs])
        # guard: E5.tenants-apart -> tenant = ""
        tenant = request.tenant if limit.tenants_apart else ""
        version = served.version or call.version
        key = request.model, served.model, version, tenant, joint.likeness(call)
        group = self._gathering.get(key)
        if group is not None and group.takes(rows, size):
            answer = _answer(group, group.add(request, call, rows, size))
            # guard: A10.joint-failure
            del group  # it keeps what is raised, whose traceback has this frame
            return await answer
        group = self._gathering[key] = _Group(served, limit.rows)
        own = group.add(request, call, rows, size)
        try:
            await asyncio.sleep(0)  # while the others of its batch come
        except BaseException:  # its caller left: they go without it
            group.left(own)
            raise
        finally:
            if self._gathering.get(key) is group:
                del self._gathering[key]
            if len(group.members) > 1:
                group.task = asyncio.get_running_loop().create_task(self._send(group))
        if group.task is None:
            return await self._open_alone(request, served)
        answer = _answer(group, own)
        del group, own  # guard: A10.joint-failure
        return await answer

    async def _send(self, group: _Group) -> None:
        try:
            await self._answer(group.members, group.served)
        except Exception as exc:  # noqa: BLE001 - whatever it is, each of them waits for an end
            _give_all(group.members, exc)
        finally:
            group.task = None

    async def _answer(self, members: Sequence[_Member], served: ServedModel) -> None:
        members = [member for member in members if not member.answer.done()]
        if not members:
            return
        failed: GatewayError
        try:
            _give(members, await self._joint(members, served))
            return
        except GatewayError as exc:
            failed = exc.with_traceback(None)
        # guard: E5.alone-again always
        if len(members) == 1 or not _is_divisible(failed):
            _give_all(members, failed)
            return
        middle = len(members) // 2
        await self._answer(members[:middle], served)
        await self._answer(members[middle:], served)

    async def _joint(self, members: Sequence[_Member], served: ServedModel) -> list[Frame]:
        first = members[0].request
        if len(members) == 1:
            stream = await self._open_alone(first, served)
            frame = await anext(stream)
            return [frame]
        requests = [member.request for member in members]
        shares = [request.held for request in requests if request.held is not None]
        latest = max(requests, key=lambda request: request.deadline.at_s)
        # guard: E5.latest-deadline latest.deadline -> first.deadline
        request = replace(
            first,
            payload=joint.joined([member.call for member in members]),
            deadline=latest.deadline,
            held=JointAnswerShare(shares),
        )
        frame = await anext(await self._open_alone(request, served))
        return joint.divided(frame, [member.part for member in members])


async def _answer(group: _Group, member: _Member) -> OneFrame:
    answer: Frame | BaseException | None = None
    try:
        answer = await member.answer
    except BaseException:
        group.left(member)
        raise
    if isinstance(answer, BaseException):
        failed = DeferredError(answer)
        del answer, member, group  # they have it, and its traceback has this frame
        raise failed.again()
    return OneFrame(answer)


def _is_divisible(failed: GatewayError) -> bool:
    """Whether a part of the calls may fare better: one of them, or their number, is the reason."""
    if isinstance(failed, UpstreamFailed | UpstreamRefused):
        return not (failed.any_call or isinstance(failed, ModelDead))
    return isinstance(failed, AnswersFull)


def _give(members: Sequence[_Member], answers: Sequence[Frame]) -> None:
    for member, answer in zip(members, answers, strict=True):
        if not member.answer.done():
            member.answer.set_result(answer)


def _give_all(members: Sequence[_Member], failed: Exception) -> None:
    for member in members:
        if not member.answer.done():
            member.answer.set_result(copy(failed))
