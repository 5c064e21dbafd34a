"""A table of exact values that nobody can read: keyed digests of their words.

The file is made once, from a column of a CSV file, under a key of its own (`spillway values`). It
holds a digest of each value, of the value's first word, and how many words it has. Without the key
nobody can tell whether a guess is in it. A text is looked up a word at a time: only where a
value begins with it, digests of so many words are looked up.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from gateway.classify import ScannerUnfit
from gateway.classify.categories.words import size, words
from gateway.core import ambient

KEY_BYTES = 32
LONGEST = 8
"""Words of a value that are compared: a longer one matches by its first eight."""
FEWEST_SIGNS = 4
"""Letters and digits of a value: shorter ones stand in any text."""
_HEAD = b"spillway-values 1\n"
_START_BYTES, _WHOLE_BYTES = 8, 16
_ROW_BYTES = _START_BYTES + 1 + _WHOLE_BYTES
_MOST_KNOWN = 65_536  # words whose digest is known already


def _digest(key: bytes, what: bytes, text: str, size: int) -> bytes:
    encoded = text.encode("utf-8", "replace")
    return hashlib.blake2b(encoded, key=key, person=what, digest_size=size).digest()


def _start(key: bytes, word: str) -> bytes:
    return _digest(key, b"start", word, _START_BYTES)


def _whole(key: bytes, own: Sequence[str]) -> bytes:
    return _digest(key, b"value", " ".join(own), _WHOLE_BYTES)


def new_key() -> str:
    """In hex, as a key file holds it."""
    return ambient.random_bytes(KEY_BYTES).hex()


def read_key(path: Path) -> bytes:
    """Raises ScannerUnfit."""
    try:
        key = bytes.fromhex(path.read_text("ascii").strip())
    except (OSError, ValueError):
        raise ScannerUnfit(f"{path}: is no key of a table of values") from None
    if len(key) != KEY_BYTES:
        raise ScannerUnfit(f"{path}: a key has {2 * KEY_BYTES} hex digits")
    return key


def written(values: Iterable[str], key: bytes) -> tuple[bytes, int, int]:
    """The file of these values, how many it has, and how many were left out as too short."""
    rows: set[bytes] = set()
    short = 0
    for value in values:
        own = words(value)[:LONGEST]
        if size(own) < FEWEST_SIGNS:
            short += 1
            continue
        rows.add(_start(key, own[0]) + bytes([len(own)]) + _whole(key, own))
    head = {"count": len(rows), "check": _whole(key, ["check"]).hex()}
    # In the order of the last digests, which says nothing of the column's.
    ordered = sorted(rows, key=lambda row: row[-_WHOLE_BYTES:])
    return b"".join([_HEAD, json.dumps(head).encode(), b"\n", *ordered]), len(rows), short


@dataclass(frozen=True, slots=True)
class ValueTable:
    _key: bytes = field(repr=False)
    _lengths: dict[bytes, tuple[int, ...]] = field(repr=False)  # by the first word
    _wholes: frozenset[bytes] = field(repr=False)
    _known: dict[int, tuple[int, ...]] = field(default_factory=dict, repr=False)
    """Of words that were met before, by their hash: no word of a caller's stays in memory."""

    @classmethod
    def load(cls, path: Path, key_path: Path) -> ValueTable:
        """Raises ScannerUnfit."""
        key = read_key(key_path)
        try:
            content = path.read_bytes()
        except OSError as exc:
            raise ScannerUnfit(f"{path}: {exc.strerror}") from None
        first, _, rows = content.removeprefix(_HEAD).partition(b"\n")
        try:
            head = json.loads(first) if content.startswith(_HEAD) else {}
            count, check = head["count"], head["check"]
        except (ValueError, KeyError, TypeError):
            raise ScannerUnfit(
                f"{path}: is no table of values; make one of a CSV file: spillway values"
            ) from None
        if check != _whole(key, ["check"]).hex():  # guard: C21.table-key
            raise ScannerUnfit(f"{path}: was made with another key than {key_path}")
        if not count or len(rows) != count * _ROW_BYTES:
            raise ScannerUnfit(f"{path}: {'is empty' if not rows else 'is not whole'}")
        return cls(key, *_indexed(rows))

    def matches(self, own: Sequence[str]) -> list[tuple[int, int]]:
        """Which of a text's words are values: the first, and the one behind the last."""
        key, known, wholes = self._key, self._known, self._wholes
        spans: list[tuple[int, int]] = []
        for at, word in enumerate(own):
            digest = hash(word)
            lengths = known.get(digest)
            if lengths is None:
                if len(known) >= _MOST_KNOWN:
                    known.clear()
                lengths = known[digest] = self._lengths.get(_start(key, word), ())
            for length in lengths:
                if _whole(key, own[at : at + length]) in wholes:
                    spans.append((at, at + length))
                    break
        return spans


def _indexed(rows: bytes) -> tuple[dict[bytes, tuple[int, ...]], frozenset[bytes]]:
    lengths: dict[bytes, set[int]] = {}
    wholes: set[bytes] = set()
    for at in range(0, len(rows), _ROW_BYTES):
        lengths.setdefault(rows[at : at + _START_BYTES], set()).add(rows[at + _START_BYTES])
        wholes.add(rows[at + _START_BYTES + 1 : at + _ROW_BYTES])
    return {start: tuple(sorted(own)) for start, own in lengths.items()}, frozenset(wholes)
