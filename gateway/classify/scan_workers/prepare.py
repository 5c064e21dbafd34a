"""The databases of a gateway's scans, compiled into the cache before its first start.

A gateway finds them there in milliseconds. One that does not compiles the same in the background
for half a minute, while the slow exact path reads its calls, and what that cannot read in time
stays on the premises.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection
from enum import Enum
from typing import TYPE_CHECKING

from gateway.classify import ScannerUnfit
from gateway.classify.gate.armed import ArmedGate
from gateway.classify.patterns.gate import awaited
from gateway.classify.patterns.store import BlobStore
from gateway.classify.scan_workers import factories
from gateway.classify.scan_workers.frames import WorkerSpec
from gateway.classify.scan_workers.pool import ScanPool
from gateway.classify.scan_workers.spec import worker_spec
from gateway.config import ClassifySettings
from gateway.core.types import Tightening

if TYPE_CHECKING:
    from gateway.classify.scanner.recognizers import PresidioScanner

Report = Callable[[str], None]


class Prepared(Enum):
    """How it went; the value is for people."""

    PRESENT = "there already"
    COMPILED = "compiled and kept"
    NOT_CACHED = "the cache cannot be written: every start compiles anew"
    NO_GATE = "compiled; no gate knows all of these recognizers, so that every call is scanned"


async def prepare(
    settings: ClassifySettings, added: Collection[Tightening], report: Report
) -> Prepared:
    """What the scans of these settings need; `added` is what callers add to what restricts.
    Raises ScannerUnfit."""
    spec = worker_spec(settings, added)
    report("reading the recognizers")
    await _started(spec)
    with awaited():
        scanner = await asyncio.to_thread(factories.build_first, spec.settings, spec.types)
    gate = ArmedGate(nice=0)
    try:
        await gate.arm(scanner.needs(), spec.canaries)
        if scanner.gated and gate.armed:
            return Prepared.PRESENT
        if not BlobStore.for_user().writable():  # before half a minute's work for nothing
            return Prepared.NOT_CACHED
        await _compiled(scanner, gate, report)
        if gate.refused is not None:
            raise ScannerUnfit(gate.refused)
        await _started(spec)  # which reads other expressions where there are databases
        return await _cached(scanner, spec.canaries) if gate.armed else Prepared.NO_GATE
    finally:
        await gate.aclose()


async def _started(spec: WorkerSpec) -> None:
    """A scan worker, which keeps its expressions, as a gateway starts it. Only a process that has
    imported nothing else compiles all of them."""
    pool = ScanPool(spec)
    try:
        await pool.start()
    finally:
        await pool.aclose()


async def _compiled(scanner: PresidioScanner, gate: ArmedGate, report: Report) -> None:
    """One of the two compiles in a thread of this process, the other in a process of its own."""
    work: list[Awaitable[object]] = [gate.built(), asyncio.to_thread(scanner.wait)]
    for done, one in enumerate(asyncio.as_completed(work)):
        report(f"compiling the pattern databases, once for this machine: {done} of {len(work)}")
        await one


async def _cached(scanner: PresidioScanner, canaries: Collection[tuple[str, str]]) -> Prepared:
    again = ArmedGate()
    await again.arm(scanner.needs(), tuple(canaries))
    armed = again.armed
    await again.aclose()
    return Prepared.COMPILED if armed else Prepared.NOT_CACHED
