"""How workers reach each other: each listens on a socket in a directory that only they can enter.

A worker asks every other one for what is to be told of all together (metrics, status), and the
owner for turns (`gateway.cluster.turns`) over one connection that is kept.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Mapping

from gateway.cluster.turns import Granting, OwnerGone, TurnRequests
from gateway.cluster.workers import OWNER, WorkerPlace
from gateway.cluster.workers.frames import Frames, Words
from gateway.core import ambient

log = logging.getLogger(__name__)

_ANSWER_S = 2.0  # for what another worker tells of itself
_AGAIN_S = 0.2  # between two looks for the owner
_PULSE_S = 0.3
_SILENT_S = 1.5  # an owner of whom nothing was heard for so long decides on nobody's call

Answer = Callable[[Words], Awaitable[Words]]
NewGranting = Callable[[str, Callable[[Words], None]], Granting]


class Listening:
    """What a worker does for the others."""

    def __init__(self, place: WorkerPlace, answer: Answer, granting: NewGranting) -> None:
        """`granting` is called for each worker that comes to ask for turns."""
        self._place, self._respond, self._new_granting = place, answer, granting
        self._grantings: dict[Frames, Granting] = {}
        self._open: set[Frames] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        path = self._place.socket_path(self._place.number)
        path.unlink(missing_ok=True)  # of a worker that died
        self._server = await asyncio.get_running_loop().create_unix_server(
            self._connected, str(path)
        )

    async def aclose(self) -> None:
        if self._server is not None:
            self._server.close()
        for frames in tuple(self._open):
            frames.close()
        for task in self._tasks:
            task.cancel()

    def _connected(self) -> Frames:
        frames = Frames(self._heard, self._ended)
        self._open.add(frames)
        return frames

    def _heard(self, frames: Frames, words: Words) -> None:
        if "n" in words:
            granting = self._grantings.get(frames)
            if granting is not None:
                granting.on_request(words)
        elif "pulse" in words:
            _send(frames, words)
        elif "turns" in words:
            send = _Sending(frames)
            self._grantings[frames] = self._new_granting(f"worker-{words['turns']}", send)
        else:
            task = asyncio.get_running_loop().create_task(self._answer(frames, words))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _answer(self, frames: Frames, words: Words) -> None:
        _send(frames, await self._respond(words))

    def _ended(self, frames: Frames) -> None:
        self._open.discard(frames)
        granting = self._grantings.pop(frames, None)
        if granting is not None:
            granting.gone()


class _Sending:
    def __init__(self, frames: Frames) -> None:
        self._frames = frames

    def __call__(self, words: Words) -> None:
        _send(self._frames, words)


def _send(frames: Frames, words: Words) -> None:
    with contextlib.suppress(ConnectionError):  # who asked has gone
        frames.send(words)


class PeerOwnerLine:
    """The way to the owner's queues, as `TurnRequests` has it. Found again when it is lost."""

    def __init__(self, place: WorkerPlace) -> None:
        self._place = place
        self._frames: Frames | None = None
        self._heard_s = 0.0
        self.asking: TurnRequests | None = None

    @property
    def open(self) -> bool:
        return self._frames is not None

    def send(self, words: Words) -> None:
        try:
            if self._frames is None:
                raise ConnectionError
            self._frames.send(words)
        except ConnectionError:
            raise OwnerGone("nobody listens") from None

    async def run(self) -> None:
        try:
            while True:
                if self._frames is None:
                    await self._connect()
                    await asyncio.sleep(_AGAIN_S)
                else:
                    self._check()
                    await asyncio.sleep(_PULSE_S)
        finally:
            if self._frames is not None:
                self._frames.close()

    async def _connect(self) -> None:
        frames = Frames(self._heard, self._ended)
        path = str(self._place.socket_path(OWNER))
        try:
            await asyncio.get_running_loop().create_unix_connection(lambda: frames, path)
            frames.send({"turns": self._place.number})
        except OSError:
            return
        self._heard_s = ambient.monotonic_s()
        self._frames = frames

    def _check(self) -> None:
        """A stopped owner keeps its connections, and would hold every call to its deadline."""
        assert self._frames is not None
        if ambient.monotonic_s() - self._heard_s >= _SILENT_S:
            log.warning("the worker that decides on servers is silent; each decides by itself")
            self._frames.close()
            return
        with contextlib.suppress(ConnectionError):
            self._frames.send({"pulse": 1})

    def _heard(self, frames: Frames, words: Words) -> None:
        self._heard_s = ambient.monotonic_s()
        if "n" in words and self.asking is not None:
            self.asking.on_message(words)

    def _ended(self, frames: Frames) -> None:
        if frames is self._frames:
            self._frames = None
            if self.asking is not None:
                self.asking.gone()


async def ask_all(place: WorkerPlace, words: Words) -> Mapping[int, Words]:
    """Every other worker, by number; those that do not answer are left out."""
    others = [n for n in range(1, place.count + 1) if n != place.number]
    answers = await asyncio.gather(*(ask(place, n, words) for n in others))
    return {n: reply for n, reply in zip(others, answers, strict=True) if reply is not None}


async def ask(place: WorkerPlace, number: int, words: Words) -> Words | None:
    reply: asyncio.Future[Words] = asyncio.get_running_loop().create_future()

    def heard(frames: Frames, answer: Words) -> None:
        if not reply.done():
            reply.set_result(answer)

    def ended(frames: Frames) -> None:
        if not reply.done():
            reply.set_exception(ConnectionError())

    frames = Frames(heard, ended)
    try:
        async with asyncio.timeout(_ANSWER_S):
            path = str(place.socket_path(number))
            await asyncio.get_running_loop().create_unix_connection(lambda: frames, path)
            frames.send(words)
            return await reply
    except (OSError, TimeoutError):
        return None
    finally:
        if not reply.done():
            reply.cancel()
        elif not reply.cancelled():
            reply.exception()  # looked at
        frames.close()
