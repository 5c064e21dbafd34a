"""Scanners that fail in every way that a worker must survive. Named by path in a WorkerSpec."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from gateway.classify import ScannerUnfit, TooMany
from gateway.config import ClassifySettings
from gateway.core.types import Finding

MARKER = "MARKER-7f3a91-SECRET"


class _Scripted:
    """Does what the text says; says nothing was found otherwise."""

    def scan(self, text: str) -> list[Finding]:
        action = text.split()[0] if text else ""
        if handler := getattr(self, f"do_{action}", None):
            found: list[Finding] = handler(text)
            return found
        return []

    def do_find(self, text: str) -> list[Finding]:
        return [Finding("US_SSN", 0, 4, 0.9)]

    def do_raise(self, text: str) -> list[Finding]:
        raise ValueError(f"cannot read {text}")

    def do_crowd(self, text: str) -> list[Finding]:
        raise TooMany

    def do_print(self, text: str) -> list[Finding]:
        print(text)
        print(text, file=sys.stderr, flush=True)
        os.write(1, text.encode())
        return []

    def do_sleep(self, text: str) -> list[Finding]:
        time.sleep(60)
        return []

    def do_hang(self, text: str) -> list[Finding]:
        signal.signal(signal.SIGALRM, signal.SIG_IGN)  # deaf to the worker's own limit
        time.sleep(60)
        return []

    def do_nap(self, text: str) -> list[Finding]:
        time.sleep(0.3)
        return []

    def do_meet(self, text: str) -> list[Finding]:
        """Finds something once the scan of the other name is under way, too."""
        _, folder, mine, other = text.split()
        Path(folder, mine).touch()
        ends = time.monotonic() + 60
        while not Path(folder, other).exists():
            if time.monotonic() > ends:
                return []
            time.sleep(0.01)
        return [Finding("US_SSN", 0, 4, 0.9)]

    def do_die(self, text: str) -> list[Finding]:
        os._exit(7)

    def do_swallow(self, text: str) -> list[Finding]:
        ends = time.monotonic() + 60
        while time.monotonic() < ends:
            try:
                time.sleep(1)
            except Exception:  # noqa: BLE001 - what a careless library does
                continue
        return []

    def do_beyond(self, text: str) -> list[Finding]:
        return [Finding("US_SSN", 0, len(text) + 1, 0.9)]

    def do_untyped(self, text: str) -> list[Finding]:
        return [Finding("no type", 0, 1, 0.9)]

    def do_sure(self, text: str) -> list[Finding]:
        return [Finding("US_SSN", 0, 1, 17.0)]

    def do_connect(self, text: str) -> list[Finding]:
        socket.create_connection(("127.0.0.1", 9))
        return []

    def do_program(self, text: str) -> list[Finding]:
        subprocess.run(["true"], check=True)
        return []

    def do_fork(self, text: str) -> list[Finding]:
        if os.fork() == 0:
            os._exit(0)
        return []

    def do_environment(self, text: str) -> list[Finding]:
        leaked = [k for k in os.environ if "PROXY" in k.upper() or "SPILLWAY_TEST" in k]
        return [Finding("US_SSN", 0, 1, 0.9)] if leaked else []

    def do_dumpable(self, text: str) -> list[Finding]:
        import ctypes

        dumpable = ctypes.CDLL(None).prctl(3, 0, 0, 0, 0)  # PR_GET_DUMPABLE
        return [Finding("US_SSN", 0, 1, 0.9)] if dumpable else []


def scripted(settings: ClassifySettings, types: frozenset[str] | None) -> _Scripted:
    return _Scripted()


def unbuildable(settings: ClassifySettings, types: frozenset[str] | None) -> _Scripted:
    raise RuntimeError(MARKER)


def unfit(settings: ClassifySettings, types: frozenset[str] | None) -> _Scripted:
    raise ScannerUnfit("there is no model at /models/x; put it there")


class _Garbage(_Scripted):
    def scan(self, text: str) -> Any:
        return "nonsense" if text.startswith("garbage") else super().scan(text)


def garbage(settings: ClassifySettings, types: frozenset[str] | None) -> _Garbage:
    return _Garbage()
