"""Ends the connection to a database server that has stopped answering.

A host that disappears closes nothing: a driver that waits for its answer waits until the kernel
gives the connection up, a quarter of an hour later with Linux's defaults, and for ever where the
host is there and its processes are frozen.
"""

from __future__ import annotations

import math
import os
import socket
import threading
from contextlib import suppress

from gateway.core import ambient
from gateway.core.deadline import Clock

ANSWER_S = 4.5
"""Longer than a server's own statement time-out, so that a server that is there ends it first."""
_CHECK_S = 0.25


class AnswerWatchdog:
    """`with watchdog:` around each operation on one connection. An operation that takes longer than
    `answer_s` finds its connection shut down, and fails as one whose server has gone."""

    def __init__(self, answer_s: float = ANSWER_S, clock: Clock | None = None) -> None:
        self.answer_s = answer_s
        self.timed_out = False  # whether it ended the connection under the latest operation
        self._clock = clock or ambient.clock()
        self._due_s = math.inf
        self._socket: socket.socket | None = None
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="ledger-watchdog", daemon=True)
        self._thread.start()

    def follow(self, descriptor: int) -> None:
        """Another connection from now on. The socket is a duplicate, so that a descriptor which the
        driver has closed and somebody else has opened again is never shut down."""
        with self._lock:
            self._forget()
            self._socket = socket.socket(fileno=os.dup(descriptor))

    def __enter__(self) -> None:
        with self._lock:
            self.timed_out = False
            self._due_s = self._clock() + self.answer_s

    def __exit__(self, *exc: object) -> None:
        with self._lock:
            self._due_s = math.inf

    def close(self) -> None:
        self._closed.set()
        self._thread.join()
        with self._lock:
            self._forget()

    def check(self) -> None:
        with self._lock:
            if self._clock() >= self._due_s and self._socket is not None:
                self.timed_out, self._due_s = True, math.inf
                with suppress(OSError):  # it has been closed from the other end
                    self._socket.shutdown(socket.SHUT_RDWR)  # guard: B1.store-watchdog

    def _watch(self) -> None:
        while not self._closed.wait(_CHECK_S):
            self.check()

    def _forget(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None
