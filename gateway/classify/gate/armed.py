"""The gate of a running gateway: from the cache of an earlier start, or compiled in the background
while everything is scanned."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import struct
import sys
import zlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import hyperscan
import orjson

from gateway.classify import ScannerUnfit
from gateway.classify.gate.confirmation import Confirmation
from gateway.classify.gate.database import PatternDatabase, Signs
from gateway.classify.gate.gate import Gate
from gateway.classify.gate.needs import UNKNOWN, Needs
from gateway.classify.gate.plan import Compiled, TriggerExpressions
from gateway.classify.patterns.alphabet import Alphabet
from gateway.classify.patterns.automaton import fingerprint
from gateway.classify.patterns.store import BlobStore
from gateway.classify.scan_workers.process import environment

log = logging.getLogger(__name__)
BACKGROUND = 10  # a nice value
_LENGTH = struct.Struct("<Q")


class ArmedGate:
    """`clear` is False until there is a gate for what the scanner needs."""

    def __init__(self, store: BlobStore | None = None, nice: int = BACKGROUND) -> None:
        """`nice`: of the compiler, so that calls are served meanwhile."""
        self._store = BlobStore.for_user() if store is None else store
        self._nice = nice
        self.gate: Gate | None = None
        self.refused: str | None = None
        self._building: asyncio.Task[None] | None = None

    def clear(self, text: str) -> bool:
        return self.gate is not None and self.gate.clear(text)

    @property
    def armed(self) -> bool:
        return self.gate is not None

    async def arm(self, needs: Needs, canaries: Sequence[tuple[str, str]] = ()) -> None:
        """At once from the cache; else returns with the compiler at work. A gate that does not fire
        on one of `canaries` is never used (C8): from the cache it raises ScannerUnfit, and compiled
        while calls are served it is refused, and kept nowhere."""
        if needs.unknown:
            log.info("every call is scanned: the gate does not know %s", ", ".join(needs.unknown))
            return
        name = _name(needs)
        gate = await asyncio.to_thread(lambda: _loaded(self._store.read(name)))
        if gate is None:
            self._building = asyncio.create_task(self._build(needs, name, canaries))
        else:
            self._use(gate, canaries)

    def _use(self, gate: Gate, canaries: Sequence[tuple[str, str]]) -> None:
        missed = [kind for kind, sample in canaries if gate.clear(sample)]
        if missed:
            raise ScannerUnfit(f"the gate misses its samples: {', '.join(missed)}")
        self.gate = gate

    async def built(self) -> None:
        """Until the compiler is done, if it is at work. `refused` says why it was in vain."""
        if self._building is not None:
            await self._building

    async def aclose(self) -> None:
        if self._building is not None:
            self._building.cancel()
            await asyncio.gather(self._building, return_exceptions=True)

    async def _build(self, needs: Needs, name: str, canaries: Sequence[tuple[str, str]]) -> None:
        dumped = await _compiled(needs, self._nice)
        gate = await asyncio.to_thread(_loaded, dumped)
        if gate is None:
            self._refuse("the gate cannot be compiled")
            return
        try:
            self._use(gate, canaries)
        except ScannerUnfit as exc:
            self._refuse(str(exc))
        else:
            await asyncio.to_thread(self._store.write, name, dumped)

    def _refuse(self, why: str) -> None:
        self.refused = why
        log.error("every call is scanned: %s", why)


async def _compiled(needs: Needs, nice: int) -> bytes:
    """A dump, or nothing."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "gateway.classify.gate.build", str(nice)),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env=environment(),
    )
    try:
        dumped, _ = await process.communicate(orjson.dumps(needs.packed()))
    except BaseException:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()
        raise
    return dumped if process.returncode == 0 else b""


def known(needs: object) -> Needs:
    """What a scanner told of itself; one that tells nothing, or nonsense, is unknown."""
    return Needs.unpack(needs) if needs is not None else UNKNOWN


def _name(needs: Needs) -> str:
    rows = [
        ("\0".join((n.expression, n.sign, n.confirmed, *n.words)), n.flags) for n in needs.needs
    ]
    return fingerprint(rows, "gate")


def _loaded(dumped: bytes | None) -> Gate | None:
    if not dumped:
        return None
    try:
        return load(dumped)
    except (hyperscan.error, ValueError, KeyError):
        return None


def dump(gate: Gate) -> bytes:
    parts = gate.compiled
    groups = (
        *(parts.ascii.plain, parts.ascii.numbered, parts.beyond.plain, parts.beyond.numbered),
        *(question.databases for question in parts.questions),
    )
    places = {id(database): database for group in groups for database in group}
    head = [
        [[list(places).index(id(database)) for database in group] for group in groups],
        [sorted(database.stops) for database in places.values()],
        parts.ascii.asks,
        sorted(parts.ascii.near),
        [
            (question.checks, question.around, [*question.confirmations.items()])
            for question in parts.questions
        ],
    ]
    blobs = [database.dump() for database in places.values()]
    classes = zlib.compress(parts.alphabet.classes, 6)
    return b"".join(
        _LENGTH.pack(len(blob)) + blob for blob in (orjson.dumps(head), classes, *blobs)
    )


def load(dumped: bytes) -> Gate:
    """Only for what `dump` wrote: Hyperscan trusts what it loads."""
    blobs = _blobs(dumped)  # one at a time, so that there is never a copy of all
    places, stops, asks, near, questions = orjson.loads(next(blobs))
    alphabet = Alphabet(zlib.decompress(next(blobs)))
    databases = [PatternDatabase.load(next(blobs), frozenset(own)) for own in stops]
    groups = (tuple(databases[at] for at in group) for group in places)
    return Gate(
        Compiled(
            alphabet,
            Signs(next(groups), next(groups), tuple(asks), frozenset(near)),
            Signs(next(groups), next(groups), tuple(asks), frozenset(near)),
            tuple(
                TriggerExpressions(next(groups), tuple(checks), around, _confirmations(rows))
                for checks, around, rows in questions
            ),
        )
    )


def _confirmations(rows: Iterable[tuple[int, dict[str, Any]]]) -> dict[int, Confirmation]:
    return {at: Confirmation(**fields) for at, fields in rows}


def _blobs(dumped: bytes) -> Iterator[bytes]:
    at = 0
    while at < len(dumped):
        (length,) = _LENGTH.unpack_from(dumped, at)
        at += _LENGTH.size
        yield dumped[at : at + length]
        at += length
