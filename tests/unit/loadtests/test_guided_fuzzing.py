"""What guided fuzzing checks of HTTP/2 and HPACK, on its seeds and a few changes of each."""

from __future__ import annotations

import random
from typing import Any

import pytest

from gateway.protocols.http2.client import Http2Client
from gateway.protocols.http2.exchange import HeldRequests
from gateway.protocols.http2.hpack import Decoder
from loadtests.fuzz.guided import TARGETS, seeds

_CHANGES = 3


def changed(dice: random.Random, seed: bytes) -> bytes:
    data = bytearray(seed)
    for _ in range(dice.randint(1, 4)):
        at = dice.randrange(len(data) + 1)
        match dice.randrange(3):
            case 0:
                data[at : at + 1] = dice.randbytes(1)
            case 1:
                del data[at : at + dice.randint(1, 12)]
            case _:
                data[at:at] = data[: dice.randint(0, 64)]
    return bytes(data)


@pytest.mark.parametrize("target", TARGETS)
def test_seeds_and_their_neighbours_hold(target: str) -> None:
    run, dice = TARGETS[target](), random.Random(2026)
    for seed in seeds(target):
        run(seed)
        for _ in range(_CHANGES):
            run(changed(dice, seed))


@pytest.mark.parametrize(
    ("target", "owner", "name", "fault"),
    [
        (
            "server",
            HeldRequests,
            "release",
            lambda self, exchange: None,
        ),  # bytes are never given back
        ("client", Http2Client, "_end", lambda self, why: None),  # calls outlive their connection
        ("hpack", Decoder, "_indexed", lambda self, index: (b"x", b"y")),
    ],
)
def test_a_fault_is_noticed(
    target: str, owner: type, name: str, fault: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(owner, name, fault)
    with pytest.raises(AssertionError):
        test_seeds_and_their_neighbours_hold(target)
