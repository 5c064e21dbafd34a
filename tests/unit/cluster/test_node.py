"""A gateway's place among the others, put together from the settings."""

from __future__ import annotations

import asyncio
import socket

import pytest

from gateway.accounting.metrics import Metrics
from gateway.cluster.node import Node
from gateway.cluster.ownership import Declared, single_owner
from gateway.config import ConfigError, LimitSettings
from gateway.core.held_bytes import HeldBytes
from tests.unit.cluster.rig import settings
from tests.unit.harness import Rig, now_s, onprem

pytestmark = pytest.mark.leaping

OWNED = {"east": ["gpu", "gpu-2"], "west": ["gpu-3"]}
NAMES = ("east", "west", "north")


def node() -> Node:
    """Its certificates are not there."""
    told = settings("west", NAMES, OWNED)
    return Node(told, LimitSettings(), Rig(onprem()).parts, Metrics(), now_s, HeldBytes(1 << 30))


def _never(host: str, port: int, key: str) -> socket.socket:
    raise AssertionError("it must not listen")


async def test_who_does_not_serve_needs_no_certificate_and_who_serves_is_told_which() -> None:
    found = node()
    with pytest.raises(ConfigError, match=r"cluster\.ca_file: ca "):
        await found.start(_never)
    await found.aclose()


async def test_status_says_who_decides_on_what() -> None:
    found = node()
    for peer in ("east", "north"):
        found.view.lost(peer)
    assert found.report() == {
        "self": "west",
        "gateways": {
            "east": {"up": False, "owns": ["gpu", "gpu-2"], "decided_by": "west"},
            "west": {"up": True, "owns": ["gpu-3"], "decided_by": "west"},
            "north": {"up": False, "owns": [], "decided_by": None},
        },
    }
    found.leave()
    assert found.view.announcement.leaving


@pytest.mark.parametrize(
    ("servers", "owner", "left"),
    [
        (("gpu", "gpu-2"), "east", ("gpu", "gpu-2")),
        (("gpu-3",), "west", ("gpu-3",)),
        (("gpu-3", "gpu"), "east", ("gpu",)),  # in whichever order they were found
        (("gpu", "gpu-3"), "east", ("gpu",)),
        (("gpu#m:2", "gpu", "gpu-3#m:2"), "east", ("gpu#m:2", "gpu")),  # places of endpoints
        (("mine",), None, ("mine",)),
        ((), None, ()),
    ],
)
def test_a_queue_is_in_front_of_the_servers_of_one_owner(
    servers: tuple[str, ...], owner: str | None, left: tuple[str, ...]
) -> None:
    ownership = Declared(settings("west", NAMES, OWNED))
    assert single_owner(ownership, servers) == (owner, left)


async def test_those_who_wait_for_nothing_are_quiet_at_once() -> None:
    async with asyncio.timeout(1.0):
        await node().owner.quiet()
