"""What several scenarios share: one Triton to be called directly and through a gateway."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.scenarios.both_ways import BothWays, both_ways
from tests.scenarios.waiting import Waits


@pytest.fixture(scope="session")
def ways(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BothWays]:
    pytest.importorskip("pytriton", reason="the embedded Triton needs Python 3.11 or 3.12")
    with both_ways(tmp_path_factory.mktemp("both-ways")) as found:
        yield found


@pytest.fixture
def waits(ways: BothWays) -> Waits:
    return Waits(ways)
