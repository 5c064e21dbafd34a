"""Worlds collect their own garbage."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.simulation.seeds import collected_by_hand


@pytest.fixture(autouse=True)
def _collecting() -> Iterator[None]:
    with collected_by_hand():
        yield
