"""What is sent: segments, whose bytes a family makes of them."""

from __future__ import annotations

import random
from base64 import b64decode, b64encode
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

MOST_BYTES = 1 << 20
"""Of an input without a key."""


@dataclass(frozen=True, slots=True)
class Input:
    """`keyed`: it has a credential that is good."""

    family: str
    keyed: bool
    segments: tuple[bytes, ...]

    def document(self) -> dict[str, Any]:
        written = [b64encode(segment).decode() for segment in self.segments]
        return {"family": self.family, "keyed": self.keyed, "segments": written}

    @staticmethod
    def read(document: dict[str, Any]) -> Input:
        segments = tuple(b64decode(segment) for segment in document["segments"])
        return Input(document["family"], document["keyed"], segments)


@dataclass(frozen=True, slots=True)
class Family:
    """Inputs of one kind. `listener` is `grpc`, `http`, or `endpoint`: what an endpoint answers.
    `alphabet` gives one segment; `render` makes bytes of many."""

    name: str
    listener: str
    alphabet: Callable[[random.Random, bool], bytes]
    render: Callable[[tuple[bytes, ...], bool], bytes]

    def made(self, chance: random.Random, keyed: bool, most_bytes: int) -> Input:
        """A few segments, of which each is repeated up to the size."""
        size = int(most_bytes * chance.choice((0.02, 0.25, 1.0)))
        kinds = [self.alphabet(chance, keyed) for _ in range(chance.choice((1, 1, 2, 3, 8)))]
        each = max(1, size // max(1, sum(map(len, kinds))))
        if chance.random() < 0.5:
            segments = kinds * each
        else:
            segments = [segment for kind in kinds for segment in [kind] * each]
        return bounded(Input(self.name, keyed, tuple(segments)), most_bytes)

    def changed(self, chance: random.Random, known: Input, other: Input, most_bytes: int) -> Input:
        segments = list(known.segments)
        for _ in range(chance.choice((1, 1, 2, 4))):
            at = chance.randrange(len(segments) + 1)
            match chance.randrange(7):
                case 0:
                    segments[at:at] = [self.alphabet(chance, known.keyed)]
                case 1:  # more of the same
                    part = segments[at : at + chance.choice((1, 2, 10, 1000))]
                    segments[at:at] = part * chance.choice((1, 10, 1000))
                case 2:
                    del segments[at : at + chance.choice((1, 10, 1000))]
                case 3:
                    begins = chance.randrange(len(other.segments))
                    segments[at:at] = other.segments[begins : begins + chance.choice((1, 10, 1000))]
                case 4 if at < len(segments):
                    segments[at] = _altered(chance, segments[at])
                case 5 if at < len(segments):  # everywhere
                    before, after = segments[at], _altered(chance, segments[at])
                    segments = [after if each == before else each for each in segments]
                case _:
                    segments = segments * 2 if chance.random() < 0.5 else segments[at:]
            segments = segments or [self.alphabet(chance, known.keyed)]
            segments = list(bounded(replace(known, segments=tuple(segments)), most_bytes).segments)
        return replace(known, segments=tuple(segments))


def bounded(made: Input, most_bytes: int) -> Input:
    """No more segments than have that size."""
    size, count = 0, 0
    for segment in made.segments:
        size += len(segment)
        if size > most_bytes:
            break
        count += 1
    return replace(made, segments=made.segments[: max(1, count)])


def _altered(chance: random.Random, segment: bytes) -> bytes:
    data = bytearray(segment)
    if not data:
        return chance.randbytes(chance.randrange(1, 9))
    at = chance.randrange(len(data))
    match chance.randrange(5):
        case 0:
            data[at] = chance.choice((0, 1, 0x7F, 0x80, 0xFF, chance.randrange(256)))
        case 1:
            data[at:at] = data[at : at + chance.choice((1, 4, 64, 4096))]
        case 2:
            del data[at : at + chance.choice((1, 4, 64, 4096))]
        case 3:
            data[at:at] = chance.randbytes(chance.choice((1, 4, 64)))
        case _:
            data[at:at] = bytes((data[at],)) * chance.choice((1, 64, 4096, 60_000))
    return bytes(data)
