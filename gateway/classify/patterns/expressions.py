"""Regular expressions as an earlier start compiled them. `regex` is written in Python and reads
those of all recognizers for half a second, most of a scan worker's start; what it makes of them
pickles, and is there again in ten milliseconds.

While `caching` holds, `regex.compile` answers from what was kept, for the same text and the same
flags, and does the rest itself.
"""

from __future__ import annotations

import hashlib
import io
import pickle
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import orjson
import regex

from gateway.classify.patterns.origin import origin
from gateway.classify.patterns.store import BlobStore

Expressions = dict[tuple[str, int], Any]
_compile: Any = regex.compile
_ALLOWED = frozenset({("regex._regex", "compile"), ("_regex", "compile")})
"""What a pickled expression names: the second half of `regex.compile`, in C."""


@contextmanager
def caching(store: BlobStore, key_bytes: bytes) -> Iterator[None]:
    """For a start that `key_bytes` describes: what it compiled is kept if it succeeds. For one
    thread, before there are others that compile."""
    name = _name(key_bytes)
    known = _read(store.read(name))
    used: Expressions = {}

    def compile_(pattern: Any, flags: int = 0, *more: Any, **named: Any) -> Any:
        if more or named or not isinstance(pattern, str):
            return _compile(pattern, flags, *more, **named)
        key = pattern, int(flags)
        if key not in used:
            used[key] = known[key] if key in known else _compile(pattern, flags)
        return used[key]

    before, regex.compile = regex.compile, compile_
    try:
        yield
    finally:
        regex.compile = before
    if used.keys() - known.keys():
        store.write(name, pickle.dumps(used))


def _name(key_bytes: bytes) -> str:
    parts = orjson.dumps([*origin(), sys.version])
    return f"regex-{hashlib.sha256(parts + key_bytes).hexdigest()}"


def _read(blob: bytes | None) -> Expressions:
    if blob is None:
        return {}
    try:
        expressions: Expressions = _Unpickler(io.BytesIO(blob)).load()
    except (pickle.UnpicklingError, EOFError, ValueError, TypeError):
        return {}
    return expressions


class _Unpickler(pickle.Unpickler):
    """For expressions and nothing else."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _ALLOWED:
            raise pickle.UnpicklingError(f"{module}.{name} is no part of an expression")
        return super().find_class(module, name)
