"""The versions of the settings that calls are under, as the process closes them."""

from __future__ import annotations

from typing import Any, cast

import pytest

from gateway.app.generation import Core
from gateway.app.generations import LiveGenerations

pytestmark = pytest.mark.leaping


class Closing:
    def __init__(self, name: str, told: list[Any], live: LiveGenerations) -> None:
        self._name, self._told, self._live = name, told, live

    async def close(self, others: list[Closing]) -> None:
        newest = cast("Closing", self._live.newest)
        self._told.append((self._name, newest._name, [other._name for other in others]))


async def test_the_newest_is_there_while_all_are_closed_and_after() -> None:
    """The embedded server's supervisor, which ends later, asks it whether calls are answered."""
    live, told = LiveGenerations(), list[Any]()
    live.live = [cast(Core, Closing(name, told, live)) for name in ("first", "second")]
    await live.close()
    assert told == [("second", "second", ["first"]), ("first", "second", [])]
    assert cast("Closing", live.newest)._name == "second"
