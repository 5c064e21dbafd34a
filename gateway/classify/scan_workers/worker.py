"""One scan worker: a process of its own, because a scan may block, blow up or never end.

Nothing that it reads leaves it except findings: its standard error is closed by whoever starts it,
logging is off, exceptions are reported by the name of their class, core dumps are off, and opening
a socket or starting a program (which could open one) is an error.
"""

from __future__ import annotations

import ctypes
import importlib
import logging
import os
import signal
import sys
from typing import Any, BinaryIO

from gateway.classify import Scanner, ScannerUnfit, TooMany
from gateway.classify.patterns.expressions import caching
from gateway.classify.patterns.store import BlobStore
from gateway.classify.scan_workers import factories, frames
from gateway.core.process import coredumps, gc_tuning
from gateway.core.process.lazy_imports import put_off
from gateway.core.types import Finding

_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE = 1, 4  # linux/prctl.h
_PROGRAMS = frozenset(
    {"subprocess.Popen", "os.exec", "os.fork", "os.forkpty", "os.posix_spawn", "os.system"}
)  # docs.python.org/3/library/audit_events.html
_SELDOM = ("numpy",)
"""For texts that are not Western, and for who compiles patterns."""
_SOFT = 0.9  # of the budget: then the worker gives up by itself and lives on


class ScanTimedOut(BaseException):
    """Not an Exception, so that no library swallows it on its way out of a scan."""


class ForbiddenSocket(Exception):
    """Some code in the worker tried to reach the network."""


class ForbiddenProgram(OSError):
    """Some code in the worker tried to start a program. An OSError, because libraries that only
    want to look around expect one and go on."""


def main() -> None:
    """`PARENT_PID [ahead]`: with `ahead` it imports what the usual scanner needs while it waits to
    be told what to scan for."""
    jobs, answers = private_pipes()
    confine(int(sys.argv[1]))
    put_off(*_SELDOM)
    gc_tuning.none_yet()
    if sys.argv[2:] == ["ahead"]:
        factories.ahead()
    spec_frame = frames.read(jobs)
    if spec_frame is None:
        return
    spec = frames.WorkerSpec.unpack(spec_frame)
    try:
        with caching(BlobStore.for_user(), frames.pack(spec_frame)):
            scanner = _build(spec)
            missed = missing(scanner, spec)
    except ScannerUnfit as exc:  # its words are for the operator; no call was read yet
        answer(answers, frames.pack({"error": str(exc)}))
        return
    except Exception as exc:  # noqa: BLE001 - reported to the parent, which refuses to start
        answer(answers, frames.pack({"error": type(exc).__name__}))
        return
    answer(answers, frames.pack({"ready": not missed, "missed": missed, "needs": _needs(scanner)}))
    gc_tuning.settled()
    alarm = _Alarm()
    while not missed and (job := frames.read(jobs)) is not None:
        answer(answers, _scan(scanner, job, alarm))


def private_pipes() -> tuple[BinaryIO, BinaryIO]:
    """Standard input and output under other numbers, so that no stray print mixes with answers."""
    jobs, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    null = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(null, standard)
    return jobs, answers


def confine(parent_pid: int) -> None:
    """Of this process: it dies with its parent, writes no log and no dump, and reaches nobody."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the gateway, which drains first
    logging.disable(logging.CRITICAL)
    coredumps.forbid()
    if sys.platform == "linux":
        libc = ctypes.CDLL(None)
        libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent_pid:  # it died before we asked
            os._exit(0)
    sys.addaudithook(_forbid_network)


def _forbid_network(event: str, _: tuple[Any, ...]) -> None:
    if event in _PROGRAMS:
        raise ForbiddenProgram(event)
    if event.startswith("socket.") and event not in ("socket.gethostname", "socket.sethostname"):
        raise ForbiddenSocket(event)


class _Alarm:
    """Interrupts a scan at its soft limit. Disarmed first and stopped second: a signal that was
    already on its way must not strike between two scans."""

    def __init__(self) -> None:
        self._armed = False
        signal.signal(signal.SIGALRM, self._ring)

    def set(self, seconds: float) -> None:
        self._armed = True
        signal.setitimer(signal.ITIMER_REAL, max(seconds, 1e-3))

    def stop(self) -> None:
        self._armed = False
        signal.setitimer(signal.ITIMER_REAL, 0)

    def _ring(self, *_: object) -> None:
        if self._armed:
            raise ScanTimedOut


def _build(spec: frames.WorkerSpec) -> Scanner:
    module, _, name = spec.factory.partition(":")
    scanner: Scanner = getattr(importlib.import_module(module), name)(spec.settings, spec.types)
    return scanner


def missing(scanner: Scanner, spec: frames.WorkerSpec) -> list[str]:
    """The canaries that this scanner gets wrong (C8)."""
    missed = [t for t, text in spec.canaries if t not in {f.type for f in scanner.scan(text)}]
    supported = getattr(scanner, "supported", None)
    if supported is not None:
        missed += sorted(f"{t} (no recognizer)" for t in spec.required - supported())
    for text in spec.negatives:
        missed += sorted({f"{f.type} (false alarm)" for f in scanner.scan(text)})
    return missed


def _needs(scanner: Scanner) -> Any:
    """What it looks for, if it can tell, so that the gateway need not ask it about every text."""
    needs = getattr(scanner, "needs", None)
    return None if needs is None else needs().packed()


def _scan(scanner: Scanner, job: Any, alarm: _Alarm) -> bytes:
    try:
        alarm.set(job["budget_s"] * _SOFT)
        try:
            return frames.pack_findings(
                [_scan_findings(scanner, text, job) for text in job["texts"]]
            )
        finally:
            alarm.stop()
    except ScanTimedOut:
        return frames.pack({"late": True})
    except TooMany:
        return frames.pack({"too_many": True})
    except Exception as exc:  # noqa: BLE001 - makes the call restricted; the message may hold content
        return frames.pack({"error": type(exc).__name__})


def _scan_findings(scanner: Scanner, text: str, job: Any) -> list[Finding]:
    """All, or up to what restricts this caller where that is less than what is looked for."""
    first, restricts = getattr(scanner, "first", None), job.get("restricts")
    if restricts is None or first is None:
        return scanner.scan(text)
    types, threshold = frozenset(restricts[0]), restricts[1]
    return list(first(text, lambda finding: finding.type in types and finding.score >= threshold))


def answer(answers: BinaryIO, frame: bytes) -> None:
    """Say it at once."""
    answers.write(frame)
    answers.flush()


if __name__ == "__main__":
    main()
