"""What the gateway and a scan worker say to each other: length-prefixed JSON over pipes.

Both directions are typed here and checked on arrival; an answer that is not exactly what was asked
for counts as a failed scan (C1).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import orjson

from gateway.classify import ScanFailed, TooMany
from gateway.core.types import Finding

if TYPE_CHECKING:  # Pydantic is a fifth of what a worker takes to start, and checks nothing there
    from gateway.config import ClassifySettings

HEADER_BYTES = 4
MAX_FRAME_BYTES = 64 * 1024 * 1024
_TYPE = re.compile(r"[A-Z][A-Z0-9_]{0,63}")

FACTORY = "gateway.classify.scan_workers.factories:build"


@dataclass(frozen=True, slots=True)
class ScanSettings:
    """What scanners go by of `classify`, as a worker is told it."""

    languages: tuple[str, ...]
    threshold: float
    allow_list: tuple[str, ...] = field(repr=False)
    deny_list: tuple[str, ...] = field(repr=False)
    registry: Path | None
    recognizers: Path | None
    names: Mapping[str, Any] = field(repr=False)  # for the engine that has settings of its own

    @classmethod
    def unpack(cls, document: Mapping[str, Any]) -> ScanSettings:
        registry, recognizers = document["registry"], document["recognizers"]
        return cls(
            languages=tuple(document["languages"]),
            threshold=document["threshold"],
            allow_list=tuple(document["allow_list"]),
            deny_list=tuple(document["deny_list"]),
            registry=None if registry is None else Path(registry),
            recognizers=None if recognizers is None else Path(recognizers),
            names=document["names"],
        )


@dataclass(frozen=True, slots=True)
class WorkerSpec:
    """How a worker builds its scanner, and what the scanner must find before it is trusted."""

    settings: ClassifySettings | ScanSettings = field(repr=False)
    """Its lists are names of people, perhaps. In the worker: what it was told of them."""
    types: frozenset[str] | None = None  # None: look for everything
    required: frozenset[str] = frozenset()  # types without a recognizer stop start-up
    canaries: tuple[tuple[str, str], ...] = ()  # (entity type, a text that holds one)
    negatives: tuple[str, ...] = ()  # texts in which none of `types` is
    factory: str = FACTORY  # module:callable

    def pack(self) -> bytes:
        assert not isinstance(self.settings, ScanSettings), "nobody passes on what it was told"
        return pack(
            {
                "settings": self.settings.model_dump(mode="json"),
                "types": None if self.types is None else sorted(self.types),
                "required": sorted(self.required),
                "canaries": self.canaries,
                "negatives": self.negatives,
                "factory": self.factory,
            }
        )

    @classmethod
    def unpack(cls, frame: Any) -> WorkerSpec:
        return cls(
            settings=ScanSettings.unpack(frame["settings"]),
            types=None if frame["types"] is None else frozenset(frame["types"]),
            required=frozenset(frame["required"]),
            canaries=tuple((t, text) for t, text in frame["canaries"]),
            negatives=tuple(frame["negatives"]),
            factory=frame["factory"],
        )


def pack(value: Any) -> bytes:
    body = orjson.dumps(value)
    return len(body).to_bytes(HEADER_BYTES, "big") + body


def read(source: BinaryIO) -> Any:
    """The next frame of a blocking stream; None at its end."""
    header = source.read(HEADER_BYTES)
    if len(header) < HEADER_BYTES:
        return None
    return orjson.loads(source.read(int.from_bytes(header, "big")))


def pack_findings(findings: Sequence[Sequence[Finding]]) -> bytes:
    return pack({"found": [[[f.type, f.start, f.end, f.score] for f in one] for one in findings]})


def unpack_findings(body: bytes, texts: Sequence[str]) -> list[list[Finding]]:
    """The findings of an answer, every part of it checked against what was asked."""
    try:
        frame = orjson.loads(body)
    except orjson.JSONDecodeError:
        raise ScanFailed("the worker's answer is not JSON") from None
    if isinstance(frame, dict) and isinstance(frame.get("error"), str):
        raise ScanFailed("the scanner raised an exception")
    if isinstance(frame, dict) and frame.get("too_many") is True:
        raise TooMany("more candidates than may be checked")
    packed = frame.get("found") if isinstance(frame, dict) else None
    if not isinstance(packed, list) or len(packed) != len(texts):
        raise ScanFailed("the worker's answer does not fit the question")
    return [_findings(one, len(text)) for one, text in zip(packed, texts, strict=True)]


def _findings(rows: Any, length: int) -> list[Finding]:
    if not isinstance(rows, list):
        raise ScanFailed("the worker's answer holds no findings")
    return [_finding(row, length) for row in rows]


def _finding(row: Any, length: int) -> Finding:
    match row:
        case [str(kind), int(start), int(end), float() | int() as score] if (
            _TYPE.fullmatch(kind)
            and 0 <= start <= end <= length
            and 0 <= score <= 1
            and not isinstance(score, bool)
        ):
            return Finding(kind, start, end, float(score))
    raise ScanFailed("the worker's answer holds something that is no finding")
