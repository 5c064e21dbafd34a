"""Who keeps an exception is not kept by it in turn, by its traceback: a call that failed is freed
at once. `test_left_by_calls.py` has the same of whole calls."""

from __future__ import annotations

import ast
import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest

from gateway.accounting.records import RecordUnwritable
from gateway.classify import ScanFailed
from gateway.classify.names.engines.local import ReaderThread
from gateway.config import QueueSettings
from gateway.core.deferred_error import DeferredError, released
from gateway.core.errors import UpstreamFailed
from gateway.core.reply import received
from gateway.core.types import InferenceRequest
from gateway.endpoints.connectors.open_inference.grpc_wire import GrpcWire
from gateway.pipeline.hedging import hedged
from gateway.scheduling.routing.policy import Policy
from tests.unit.grpc_rig import key, running_front
from tests.unit.harness import (
    ANSWERS,
    BUG,
    BUSY,
    EMPTY,
    FAILS,
    GARBAGE,
    HANGS,
    REFUSES,
    UNREACHABLE,
    Plan,
    Rig,
    Setup,
    cloud,
    onprem,
    request,
    run,
)  # fmt: skip
from tests.unit.http2 import peers
from tests.unit.release_rig import Left, uncollected
from tests.unit.test_before_dispatch import Marked

pytestmark = pytest.mark.interpreted  # tracebacks of what is compiled have no frames
GATEWAY = Path(__file__).parents[2] / "gateway"


def left_by(main: Callable[[], Coroutine[Any, Any, object]]) -> Left:
    """What `main` leaves besides what it returns: a rig has cycles of its own."""

    async def measured() -> Left:
        with uncollected() as left:
            rig = await main()
        del rig
        return left

    return run(measured())


async def ask(rig: Rig, call: InferenceRequest) -> None:
    """As a front would, but that it names nothing that is raised."""
    with contextlib.suppress(Exception, asyncio.CancelledError):
        reply = await rig.pipeline.handle(call)
        await received(reply.frames)


PLANS = {
    "answers": ANSWERS,
    "refuses": REFUSES,
    "fails": FAILS,
    "unreachable": UNREACHABLE,
    "busy": BUSY,
    "empty": EMPTY,
    "garbage": GARBAGE,
    "bug": BUG,
    "hangs": HANGS,
    "breaks": Plan(frames=3, error=lambda: UpstreamFailed("it broke off"), fails_at=1),
    "stalls": Plan(frames=3, hangs_at=1),
}


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("kind", ["clear", "restricted"])
@pytest.mark.parametrize("plan", PLANS)
def test_no_call_leaves_a_cycle(plan: str, kind: str, streamed: bool) -> None:
    async def main() -> Rig:
        rig = Rig(onprem(PLANS[plan]), cloud(PLANS[plan]))
        await ask(rig, request(kind, 5.0, streamed=streamed))
        await asyncio.sleep(1)
        return rig

    assert left_by(main).cycles == ()


@pytest.mark.parametrize("plan", ["fails", "unreachable", "busy", "empty", "garbage"])
def test_nor_does_one_that_is_answered_elsewhere(plan: str) -> None:
    async def main() -> Rig:
        rig = Rig(onprem(PLANS[plan]), cloud(ANSWERS))
        await ask(rig, request("clear", 5.0))
        assert rig.cloud_seen
        return rig

    assert left_by(main).cycles == ()


@pytest.mark.parametrize("plan", ["fails", "hangs"])
def test_nor_does_one_that_is_tried_twice_side_by_side(plan: str) -> None:
    async def main() -> Rig:
        quick = [ANSWERS] * 20
        late = Plan(open_s=2.0, error=lambda: UpstreamFailed("it failed"))
        sites = onprem(*quick, late if plan == "fails" else HANGS), cloud(PLANS[plan])
        rig = Rig(*sites, setup=Setup(policy=Policy(max_attempts=2), hedging=True))
        for i in range(20):
            await rig.call(request(f"clear{i}"))
        await ask(rig, request("clear", 10.0))
        assert rig.cloud_seen
        await asyncio.sleep(1)
        return rig

    assert left_by(main).cycles == ()


async def fails_in(seconds: float) -> Any:
    await asyncio.sleep(seconds)
    raise UpstreamFailed("it failed")


async def two_that_fail() -> None:
    async def second() -> Coroutine[Any, Any, Any]:
        return fails_in(0.1)

    with contextlib.suppress(UpstreamFailed):
        await hedged(fails_in(1.0), 0.5, second)


def test_nor_do_two_tries_that_both_fail() -> None:
    assert left_by(two_that_fail).cycles == ()


@pytest.mark.parametrize("why", ["full", "late", "left", "cut"])
def test_nor_does_one_that_waits_in_a_queue(why: str) -> None:
    async def main() -> Rig:
        setup = Setup(queue=QueueSettings(max_waiting=1))
        rig = Rig(onprem(HANGS), setup=setup)
        tasks = [asyncio.create_task(ask(rig, request("restricted", 100.0))) for _ in range(2)]
        await asyncio.sleep(1)
        if why in ("full", "late"):
            rig_call = request("restricted", 100.0 if why == "full" else 1.0)
            await ask(rig, rig_call)
        elif why == "cut":
            rig.pipeline.cut()
        for task in tasks:
            if why != "cut":
                task.cancel()
        await asyncio.wait(tasks)
        return rig

    assert left_by(main).cycles == ()


def test_nor_does_a_stream_that_is_cut() -> None:
    async def main() -> Rig:
        rig = Rig(onprem(Plan(frames=3, hangs_at=1)))
        task = asyncio.create_task(ask(rig, request("restricted", 100.0, streamed=True)))
        await asyncio.sleep(1)
        rig.pipeline.cut()
        await task
        return rig

    assert left_by(main).cycles == ()


@pytest.mark.parametrize("fails", ["unwritable", "late"])
def test_nor_does_one_whose_record_is_not_durable(fails: str) -> None:
    async def main() -> Rig:
        marked = Marked(cloud())
        task = asyncio.create_task(ask(marked.rig, request("clear", 5.0)))
        durable = await marked.disk.asked()
        if fails == "unwritable":
            durable.set_result(RecordUnwritable("no space is left"))
        await task
        return marked.rig

    assert left_by(main).cycles == ()


def test_nor_does_one_whose_names_cannot_be_read() -> None:
    def fails(texts: object, go_on: object) -> Any:
        raise ScanFailed("nothing can be read")

    async def main() -> None:
        thread = ReaderThread(fails, 4)
        try:
            with contextlib.suppress(ScanFailed):
                await thread.find(["a text"], 5.0)
        finally:
            thread.end()

    with uncollected() as left:
        asyncio.run(main())
    assert left.cycles == ()


@pytest.mark.anyio
@pytest.mark.usefixtures("one_event_loop")
@pytest.mark.parametrize("why", ["gone", "late", "refuses"])
async def test_nor_does_a_question_over_grpc(why: str) -> None:
    async def says_nothing(peer: peers.Peer) -> None:
        peer.send(peers.settings())
        while True:
            seen = await peer.until(peers.HEADERS)
            if why == "refuses":
                fields = [
                    (":status", "200"), ("content-type", "application/grpc"), ("grpc-status", "3"),
                ]  # fmt: skip
                last = peers.END_HEADERS | peers.END_STREAM
                peer.send(peer.head(seen.stream, fields, last))

    async with peers.server(says_nothing) as target:
        address = "127.0.0.1:1" if why == "gone" else target
        wire = GrpcWire(address, None, (), connect_timeout_s=2.0, max_answer_bytes=1000)
        with uncollected() as left:
            for _ in range(2):  # by the second, the loop holds nothing of the first
                with contextlib.suppress(Exception):
                    await wire.ask("/a/b", b"", 0.2)
        await wire.aclose()
    assert left.cycles == ()


@pytest.mark.anyio
@pytest.mark.usefixtures("one_event_loop")
@pytest.mark.parametrize("path", [peers.INFER, peers.STREAM])
async def test_nor_does_one_without_a_key(path: str) -> None:
    async with running_front(keys={"k": key()}) as running:
        with uncollected() as left:
            async with peers.caller(running.port) as peer:
                peer.send(peer.call(1, b"x" * 100, path))
                assert (await peer.fields(1))["grpc-status"] == "16"
    assert left.cycles == ()


def test_what_is_kept_has_all_of_its_traceback_but_the_frame_that_keeps_it() -> None:
    def fails() -> None:
        raise ValueError("one")

    try:
        fails()
    except ValueError as exc:
        kept = DeferredError(exc)
    trace = kept.error.__traceback__
    assert trace is not None
    assert trace.tb_frame.f_code is fails.__code__
    with pytest.raises(ValueError, match="one"):
        raise kept.again()


def test_what_is_released_has_no_traceback_and_nothing_in_it_has() -> None:
    inner = ValueError().with_traceback(None)
    try:
        try:
            raise inner
        except ValueError:
            raise BaseExceptionGroup("", [ExceptionGroup("", [inner])]) from None
    except BaseExceptionGroup as exc:
        group = exc
    assert inner.__traceback__ is not None
    released(group)
    assert [error for error in (group, inner) if error.__traceback__ is not None] == []


# In what is written

_BESIDE_CALLS = (
    "app/imports/",
    "app/top/",
    "cli/",
    "demo/",
    "endpoints/triton/",
    "models/",
    "simulate/",
)
_NOT_OF_CALLS = {
    ("scheduling/factory.py", "exc"),  # a scheduler that is to fail
    ("classify/scan_workers/pool.py", "failure"),  # no scanner starts
    ("accounting/audit/writer/thread.py", "exc"),  # of records
    ("endpoints/batch_rows/row_trials.py", "exc"),
}


def keeping(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Where what is raised, or was caught, goes by a name that outlives it: the frame has it then,
    or what the frame has, and its traceback has the frame."""
    handlers = [each for each in ast.walk(tree) if isinstance(each, ast.ExceptHandler)]
    caught = {id(node): each.name for each in handlers for node in ast.walk(each)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Name | ast.Attribute):
            name = ast.unparse(node.exc)
            if name.rpartition(".")[2][:1].islower() and name != caught.get(id(node)):
                yield node.lineno, name
    for handler in handlers:
        for node in (each for each in ast.walk(handler) if isinstance(each, ast.Assign)):
            values = node.value.elts if isinstance(node.value, ast.Tuple) else [node.value]
            if any(isinstance(v, ast.Name) and v.id == handler.name for v in values):
                yield node.lineno, str(handler.name)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("def f():\n  a = E()\n  raise a", ["a"]),
        ("def f(self):\n  raise self.failure", ["self.failure"]),
        ("try:\n  f()\nexcept E as exc:\n  raise exc", []),
        ("try:\n  f()\nexcept E as exc:\n  self.error = exc", ["exc"]),
        ("try:\n  f()\nexcept E as exc:\n  a, b = exc, 1", ["exc"]),
        ("try:\n  f()\nexcept E as exc:\n  a = Kept(exc)", []),
        ("raise E\nraise a.E\nraise E()\nraise kept.again()\nraise copy(a)", []),
    ],
)
def test_what_keeps_an_exception_is_noticed(text: str, names: list[str]) -> None:
    assert [name for _, name in keeping(ast.parse(text))] == names


def test_nothing_on_the_way_of_a_call_names_what_it_raises() -> None:
    found = []
    for path in sorted(GATEWAY.rglob("*.py")):
        file = path.relative_to(GATEWAY).as_posix()
        if file.startswith(_BESIDE_CALLS):
            continue
        for line, name in keeping(ast.parse(path.read_text())):
            if (file, name) not in _NOT_OF_CALLS:
                found.append(f"{file}:{line}: {name}")
    assert found == []
