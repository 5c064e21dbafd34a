"""What an input does to a `spillway serve` of its own: `/healthz` is asked meanwhile, over one
connection, and the longest time that it waits is how long the loop was held, by the clock.
"""

from __future__ import annotations

import socket
import sys
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from loadtests.fuzz.families import FAMILIES
from loadtests.fuzz.http2_inputs import KEY
from loadtests.fuzz.inputs import Input
from loadtests.fuzz.meter import clear_peak, peak_bytes, resident_bytes
from loadtests.fuzz.subject import CALLS, SETTINGS, Answers, deliver, delivered
from loadtests.peers.process import Process
from loadtests.ports import free_port

_ASK = b"GET /healthz HTTP/1.1\r\nhost: gateway\r\n\r\n"
_PAUSE_S = 0.002
_AFTERWARDS_S = 0.5


@dataclass(frozen=True, slots=True)
class Confirmed:
    """`idle_ms` is the longest wait while nothing was sent, for as long."""

    size: int
    hold_ms: float
    idle_ms: float
    grown_bytes: int
    survived: bool


class Prober:
    """Asks again and again; `longest_s` since it was set to nothing."""

    def __init__(self, port: int) -> None:
        self._connection = socket.create_connection(("127.0.0.1", port), timeout=120)
        self.longest_s = 0.0
        self.failed = False
        threading.Thread(target=self._ask, daemon=True).start()

    def _ask(self) -> None:
        try:
            while True:
                began_s = time.monotonic()
                self._connection.sendall(_ASK)
                if not self._connection.recv(4096):
                    raise OSError
                self.longest_s = max(self.longest_s, time.monotonic() - began_s)
                time.sleep(_PAUSE_S)
        except OSError:
            self.failed = True


def confirm(inputs: Iterable[Input], scratch: Path) -> list[Confirmed]:
    """Each on the same gateway, one after the other."""
    answers, ports = Answers(), [free_port() for _ in range(4)]
    provider, tensors, http, grpc = ports
    settings = scratch / "confirm.yaml"
    settings.write_text(
        SETTINGS.format(
            http=http,
            grpc=grpc,
            provider=provider,
            scripted=answers.port,
            tensors=tensors,
            scratch=scratch,
        )
    )
    at = ["--port", str(provider), "--grpc-port", str(tensors)]
    echo = Process([sys.executable, "-m", "loadtests.echo", *at], scratch / "echo2.log")
    served = Process(
        [sys.executable, "-m", "gateway", "serve", "--config", settings],
        scratch / "serve.log",
        {"SPILLWAY_FUZZ_KEY": KEY},
    )
    try:
        served.await_answer(http, "/healthz", 60)
        prober = Prober(http)
        return [_one(each, served, prober, answers, http, grpc) for each in inputs]
    finally:
        served.stop()
        echo.stop()


def _one(
    given: Input, served: Process, prober: Prober, answers: Answers, http: int, grpc: int
) -> Confirmed:
    family = FAMILIES[given.family]
    data = family.render(given.segments, given.keyed)
    time.sleep(_AFTERWARDS_S)
    prober.longest_s = 0.0
    time.sleep(2 * _AFTERWARDS_S)
    idle_s, prober.longest_s = prober.longest_s, 0.0
    clear_peak(served.pid)
    before = resident_bytes(served.pid)
    if family.listener == "endpoint":
        delivered(answers, data, http, CALLS[family.name], lambda: False)
    else:
        deliver(grpc if family.listener == "grpc" else http, data, lambda: True)
    time.sleep(_AFTERWARDS_S)
    grown = peak_bytes(served.pid) - before
    return Confirmed(len(data), prober.longest_s * 1000, idle_s * 1000, grown, not prober.failed)
