"""The automaton of a set of expressions: loaded where there is one on disk, else built in the
background while everything runs ungated."""

from __future__ import annotations

import contextlib
import logging
import os
import threading
from collections.abc import Iterable, Iterator
from contextvars import ContextVar

import hyperscan

from gateway.classify.patterns.automaton import Automaton, Key, family, fingerprint
from gateway.classify.patterns.store import BlobStore

log = logging.getLogger(__name__)
_NICE = 10
_awaited = ContextVar("awaited", default=False)


class PatternGate:
    """`automaton` is None until there is one; it is replaced by one that knows more expressions."""

    def __init__(self, store: BlobStore) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._wanted: frozenset[Key] = frozenset()
        self._builder: threading.Thread | None = None
        self.automaton: Automaton | None = None

    def want(self, keys: Iterable[Key]) -> None:
        """From now on these expressions are to be gated. Returns at once; a change of the set is
        served from the disk, or by a thread that compiles it."""
        wanted = frozenset(keys)
        with self._lock:
            if wanted == self._wanted:
                return
            self._wanted = wanted
            if self._load(wanted) or self._builder is not None:
                return
            nice = 0 if _awaited.get() else _NICE
            self._builder = threading.Thread(
                target=self._build, args=(nice,), name="patterns", daemon=True
            )
            self._builder.start()

    def wait(self, timeout_s: float | None = None) -> bool:
        """Until nothing is being built. For tests, benchmarks and who would rather start late."""
        builder = self._builder
        if builder is not None:
            builder.join(timeout_s)
        return self._builder is None

    def _load(self, keys: frozenset[Key]) -> bool:
        for automaton in _loaded(self._store.read(fingerprint(keys))):
            self.automaton = automaton
            return True
        return False

    def _build(self, nice: int) -> None:
        if nice:
            _yield_to_others(nice)
        done: frozenset[Key] = frozenset()
        while True:
            with self._lock:
                if self._wanted == done:
                    self._builder = None
                    return
                keys = self._wanted
            try:
                bases = (one for blob in self._store.each(family()) for one in _loaded(blob))
                built = Automaton.build(sorted(keys), bases)
            except Exception as exc:  # noqa: BLE001 - without it everything runs, only slower
                log.warning("no pattern database (%s); every pattern runs", type(exc).__name__)
            else:
                self._store.write(fingerprint(keys), built.dump())
                with self._lock:
                    if self._wanted == keys:
                        self.automaton = built
            done = keys


def _loaded(dumped: bytes | None) -> Iterator[Automaton]:
    """One, or none."""
    if dumped is not None:
        with contextlib.suppress(hyperscan.error, ValueError):
            yield Automaton.load(dumped)


@contextlib.contextmanager
def awaited() -> Iterator[None]:
    """What is wanted within is compiled at the usual priority, since somebody waits for it. At the
    low one, a compiler gets next to nothing of a machine that is busy."""
    before = _awaited.set(True)
    try:
        yield
    finally:
        _awaited.reset(before)


def _yield_to_others(nice: int) -> None:
    """Linux has a priority for each thread."""
    with contextlib.suppress(OSError, AttributeError):
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), nice)
