"""A whole gateway in a thread of this process, whose loop measures itself, and what sends to it."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import os
import re
import selectors
import socket
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from gateway.app.gateway import Gateway
from gateway.config.reading import parse
from gateway.core.process import gc_tuning
from loadtests.fuzz.families import FAMILIES
from loadtests.fuzz.http2_inputs import KEY
from loadtests.fuzz.inputs import Input
from loadtests.fuzz.meter import MeteredLoop, clear_peak, peak_bytes, resident_bytes
from loadtests.peers.process import Process
from loadtests.ports import free_port

SETTINGS = """
listen: {{host: 127.0.0.1, http_port: {http}, grpc_port: {grpc}}}
classify: {{profile: patterns}}
keys:
  fuzz: {{key: "${{SPILLWAY_FUZZ_KEY}}", tenant: fuzz}}
endpoints:
  provider: {{kind: openai, zone: cloud, url: "http://127.0.0.1:{provider}/v1", expected_ms: 2}}
  scripted: {{kind: openai, zone: cloud, url: "http://127.0.0.1:{scripted}/v1", expected_ms: 2}}
  tensors: {{kind: kserve, zone: onprem, grpc: "127.0.0.1:{tensors}", expected_ms: 2}}
models:
  chat:
    task: generate
    served_by: [{{endpoint: provider, model: echo, price_usd: 0.000001}}]
  scripted:
    task: generate
    served_by: [{{endpoint: scripted, model: echo, price_usd: 0.000001}}]
  simple:
    task: infer
    served_by: [{{endpoint: tensors, model: echo}}]
audit: {{directory: "{scratch}/audit"}}
ledger: {{path: "{scratch}/ledger.db"}}
health: {{dwell_s: 0.01, dwell_max_s: 0.01, canary_s: 0.02, canary_passes: 1, slow_start_s: 0}}
log: {{level: error}}
"""
USUAL = json.dumps({"choices": [{"index": 0, "message": {"role": "assistant", "content": "x"}}]})
OTHERWISE = (
    f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {len(USUAL)}\r\n"
    f"connection: close\r\n\r\n{USUAL}"
).encode()
"""What canaries get."""
_LENGTH = re.compile(rb"(?i)\r\ncontent-length: *([0-9]+)")
_QUIET_S = 0.03  # in which the loop does nothing any more
_MOST_S = 20.0  # for one input
_READ = 1 << 18
_UNKEYED_BYTES = 4 << 20
_KEYED_BYTES = 32 << 20  # 1,024 streams
_STREAMED = b'"stream":true'
_WHOLE = b'"content":"a whole answer"'  # of a call that is no canary


def _call(body: bytes) -> bytes:
    return (
        b"POST /v1/chat/completions HTTP/1.1\r\nhost: gateway\r\nauthorization: Bearer %b\r\n"
        b"content-type: application/json\r\nconnection: close\r\ncontent-length: %d\r\n\r\n%b"
    ) % (KEY.encode(), len(body), body)


CALLS = {
    "answers": _call(
        b'{"model":"scripted",%b,"messages":[{"role":"user","content":"x"}]}' % _STREAMED
    ),
    "bodies": _call(b'{"model":"scripted","messages":[{"role":"user",%b}]}' % _WHOLE),
}
"""What a caller asks whose answer an endpoint makes up, by family."""


@dataclass(frozen=True, slots=True)
class Cost:
    """What an input of so many bytes did. `grown_bytes`: the process at its largest, less what it
    was before. `keyed`: it had a good credential."""

    size: int
    keyed: bool
    hold_ms: float
    total_ms: float
    grown_bytes: int

    @property
    def ms_per_mb(self) -> float:
        return self.total_ms * 1e6 / max(self.size, 1)

    @property
    def memory_ratio(self) -> float:
        """Times its size, beyond what any input may need: a few calls at once without a key, and
        with one as many as the gateway takes."""
        needed = _KEYED_BYTES if self.keyed else _UNKEYED_BYTES
        return max(0, self.grown_bytes - needed) / max(self.size, 1 << 16)


class Answers:
    """A provider: the next caller gets what was put there for it, others a usual answer."""

    def __init__(self) -> None:
        self.said = b""
        self._listening = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port: int = self._listening.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            connection, _ = self._listening.accept()
            threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError):
            connection.settimeout(_MOST_S)
            got = b""
            while not _is_whole(got) and (more := connection.recv(_READ)):
                got += more
            asked = _STREAMED in got or _WHOLE in got
            said, self.said = (self.said, b"") if asked else (b"", self.said)
            connection.sendall(said or OTHERWISE)


def _is_whole(request: bytes) -> bool:
    head, ended, body = request.partition(b"\r\n\r\n")
    length = _LENGTH.search(head)
    return bool(ended) and len(body) >= (0 if length is None else int(length[1]))


def delivered(answers: Answers, said: bytes, port: int, call: bytes, quiet: object) -> None:
    """Has the call answered by that. After an answer that was none the endpoint is out for a
    moment. Raises RuntimeError where it is never asked."""
    until_s = time.monotonic() + _MOST_S
    answers.said = said
    while answers.said:
        if time.monotonic() > until_s:
            raise RuntimeError("the endpoint that answers was never asked")
        deliver(port, call, quiet)
        if answers.said:
            time.sleep(_QUIET_S)


@dataclass(slots=True)
class Subject:
    loop: MeteredLoop
    gateway: Gateway
    answers: Answers

    def cost(self, given: Input) -> Cost:
        """Sends it, and waits until nothing more is done about it."""
        family = FAMILIES[given.family]
        data = family.render(given.segments, given.keyed)
        port = self.gateway.grpc_port if family.listener == "grpc" else self.gateway.http_port
        self._settle()
        gc.freeze()  # the collector is to look at what this input makes, and not at the search
        clear_peak()
        before = resident_bytes()
        self._barrier(self.loop.clear)
        if family.listener == "endpoint":
            delivered(self.answers, data, port, CALLS[family.name], self._quiet)
        else:
            deliver(port, data, self._quiet)
        self._settle()
        loop = self.loop
        grown = peak_bytes() - before
        return Cost(len(data), given.keyed, loop.longest_ns / 1e6, loop.total_ns / 1e6, grown)

    def _settle(self) -> None:
        until_s = time.monotonic() + _MOST_S
        while not self._quiet() and time.monotonic() < until_s:
            pass

    def _quiet(self) -> bool:
        """Whether the loop did next to nothing for a moment. A waiting loop takes no turns."""
        before_ns = self.loop.total_ns
        self._barrier(lambda: None)
        time.sleep(_QUIET_S)
        self._barrier(lambda: None)
        return self.loop.total_ns - before_ns < 2_000_000

    def _barrier(self, task: object) -> None:
        done = threading.Event()

        def run() -> None:
            task()  # type: ignore[operator]
            done.set()

        self.loop.call_soon_threadsafe(run)
        done.wait(_MOST_S)


def deliver(port: int, data: bytes, quiet: object) -> None:
    """Sends it as fast as it is taken, reads what is answered, and leaves when all is quiet."""
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.setblocking(False)
        at, until_s = 0, time.monotonic() + _MOST_S
        view = memoryview(data)
        with selectors.DefaultSelector() as waiting, contextlib.suppress(OSError):
            waiting.register(connection, selectors.EVENT_READ | selectors.EVENT_WRITE)
            while time.monotonic() < until_s:
                writes = selectors.EVENT_WRITE if at < len(data) else 0
                waiting.modify(connection, selectors.EVENT_READ | writes)
                ready = waiting.select(0.05)
                if not ready and quiet():  # type: ignore[operator]
                    break
                for _, events in ready:
                    if events & selectors.EVENT_READ and not connection.recv(_READ):
                        return
                    if events & selectors.EVENT_WRITE and at < len(data):
                        at += connection.send(view[at : at + _READ])


@contextlib.contextmanager
def running(scratch: Path) -> Iterator[Subject]:
    """A gateway that serves, with a provider that answers what it is told, and an echo."""
    os.environ["SPILLWAY_FUZZ_KEY"] = KEY
    answers, tensors = Answers(), free_port()
    provider = free_port()
    ports = ["--port", str(provider), "--grpc-port", str(tensors)]
    echo = Process([sys.executable, "-m", "loadtests.echo", *ports], scratch / "echo.log")
    ready: list[Subject] = []
    begun = threading.Event()
    text = SETTINGS.format(
        http=0,
        grpc=0,
        provider=provider,
        scripted=answers.port,
        tensors=tensors,
        scratch=scratch,
    )

    def serve() -> None:
        loop = MeteredLoop()
        with asyncio.Runner(loop_factory=lambda: loop) as runner:

            async def run() -> None:
                gateway = Gateway(parse(text))

                def is_ready(gateway: Gateway) -> None:
                    ready.append(Subject(loop, gateway, answers))
                    begun.set()

                await gateway.run(is_ready)

            try:
                runner.run(run())
            finally:
                begun.set()

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        echo.await_answer(int(ports[1]), "/health", 20)
        begun.wait(60)
        if not ready:
            raise RuntimeError("the gateway did not start")
        gc_tuning.settled()  # as `spillway serve` has it
        yield ready[0]
    finally:
        if ready:
            ready[0].loop.call_soon_threadsafe(ready[0].gateway.stop)
        thread.join(20)
        echo.stop()
