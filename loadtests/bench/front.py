"""What the front of a call costs: its bytes parsed, checked, made a request of, and the answer
written, without the kernel and with nothing behind it.

    python -m loadtests.bench.front [--json]

Each figure is the least of many short slices, in microseconds of the processor a call: what the
code costs where nothing else is in its way.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from collections.abc import Callable
from typing import Any, cast

import uvloop

from gateway.auth import Callers
from gateway.config import KeySettings, LimitSettings
from gateway.config.model_catalog import Catalog, CatalogModel
from gateway.core import ambient
from gateway.core.operations.registry import by_path
from gateway.core.reply import InferenceReply, JsonBody, OneFrame, Placement
from gateway.core.types import InferenceRequest, Sensitivity, WireProtocol, Zone
from gateway.protocols import strictjson
from gateway.protocols.http.connection import App as ServedBy
from gateway.protocols.http.connection import HttpConnection
from gateway.protocols.http.exchange import HttpExchange
from gateway.protocols.http.head import HttpHead, check
from gateway.server import Services, intake
from gateway.server.http import App
from gateway.server.kserve import front as kserve
from gateway.server.openai import front as openai
from gateway.server.openai.documents import read

_SLICES, _CALLS = 60, 200
_KEY = "sk-bench-0123456789"
_WORDS = "the model should explain how a small river flows through quiet hills " * 29
_BODY = json.dumps({"model": "m", "messages": [{"role": "user", "content": _WORDS[:2000]}]})
_CALL = (
    "POST /v1/chat/completions HTTP/1.1\r\nHost: gateway:8080\r\nUser-Agent: bench\r\n"
    "Accept: */*\r\nContent-Type: application/json\r\n"
    f"Authorization: Bearer {_KEY}\r\nContent-Length: {len(_BODY)}\r\n\r\n{_BODY}"
).encode()
_ANSWER = b'{"id":"1","object":"chat.completion","choices":[],"usage":{"total_tokens":402}}'


class _Transport:
    """Takes what is written and forgets it."""

    written = 0

    def write(self, data: bytes) -> None:
        self.written += 1

    def get_extra_info(self, name: str) -> None:
        return None

    def is_closing(self) -> bool:
        return False

    def pause_reading(self) -> None:
        return

    def resume_reading(self) -> None:
        return


class _Host:
    date = "date: Sun, 22 Nov 2026 11:41:06 GMT\r\n"
    stopping = False

    def __init__(self, app: ServedBy) -> None:
        self.app: ServedBy = app

    def opened(self, connection: HttpConnection) -> None:
        return

    def closed(self, connection: HttpConnection) -> None:
        return


async def _answer(request: InferenceRequest) -> InferenceReply:
    placement = Placement(Zone.ONPREM, "gpu", "onprem_room", 1, Sensitivity.CLEAR, 0.0001)
    return InferenceReply(placement, OneFrame(JsonBody(_ANSWER)))


def services() -> Services:
    return Services(
        handle=_answer,
        callers=Callers({"k": KeySettings(key=cast(Any, _KEY), tenant="t")}),
        catalog=Catalog({"m": CatalogModel("m", "generate", ("gpu",))}),
        inspection=cast(Any, None),
        limits=LimitSettings(),
        new_id=ambient.new_id,
        clock=ambient.monotonic_s,
    )


async def _least(work: Callable[[], Any]) -> float:
    """Microseconds of one `work`, awaited if it is to be."""
    best = float("inf")
    for _ in range(_SLICES):
        began = time.thread_time()
        for _ in range(_CALLS):
            found = work()
            if found is not None:
                await found
        best = min(best, time.thread_time() - began)
        await asyncio.sleep(0)
    return best / _CALLS * 1e6


async def measured() -> dict[str, float]:
    given = services()
    app = App(given, [kserve.front(given), openai.front(given)])
    transport = _Transport()
    line = HttpConnection(_Host(app))
    line.connection_made(cast(Any, transport))
    loop = asyncio.get_running_loop()

    async def whole() -> None:
        before = transport.written
        line.data_received(_CALL)
        while transport.written == before:  # noqa: ASYNC110 - what is measured
            await asyncio.sleep(0)

    seen: list[HttpExchange] = []

    async def keep(exchange: HttpExchange) -> None:
        seen.append(exchange)
        exchange.reply(200, "content-length: 0\r\n", b"")

    parser = HttpConnection(_Host(keep))
    parser.connection_made(cast(Any, _Transport()))
    parser.data_received(_CALL)
    await asyncio.sleep(0)
    head = seen[0].head
    body = _BODY.encode()
    arrival = intake.arrive(head.headers, given)
    caller = given.callers.identify(head.headers["authorization"], ())
    document = strictjson.load_object(body, 64)
    model, call = read(by_path()[head.path], document, given.catalog)
    request = intake.build(given, arrival, caller, head.headers, WireProtocol.OPENAI, model, call)
    placement = (await _answer(request)).placement

    async def nothing() -> None:
        return

    def build() -> None:
        intake.build(given, arrival, caller, head.headers, WireProtocol.OPENAI, model, call)

    def plain(work: Callable[[], Any]) -> Callable[[], None]:
        def run() -> None:
            work()

        return run

    return {
        "the whole front": await _least(whole),
        "a task": await _least(lambda: loop.create_task(nothing())),
        "head": await _least(
            plain(lambda: HttpHead("POST", b"/v1/chat/completions", "1.1", head.fields))
        ),
        "check": await _least(plain(lambda: check(head))),
        "ids": await _least(plain(lambda: intake.arrive(head.headers, given))),
        "caller": await _least(
            plain(lambda: given.callers.identify(head.headers["authorization"], ()))
        ),
        "json": await _least(plain(lambda: strictjson.load_object(body, 64))),
        "request": await _least(build),
        "told": await _least(
            plain(lambda: intake.placement_lines(request.id, request.traceparent, placement))
        ),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--profile", action="store_true", help="where the time of the whole goes")
    args = parser.parse_args()
    if args.profile:
        import cProfile

        cProfile.runctx("uvloop.run(measured())", globals(), locals(), sort="tottime")
        return
    found = uvloop.run(measured())
    if args.json:
        print(json.dumps(found))
        return
    for name, us in found.items():
        print(f"{name:20}{us:8.1f} us")


if __name__ == "__main__":
    main()
