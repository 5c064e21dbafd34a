"""What scenarios share: a Triton, called directly and through a gateway, and a cloud."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from gateway.demo.cloud.process import SimulatedCloud
from tests.live import LoopThread, simulated_cloud
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


@pytest.fixture(scope="session")
def another_cloud(loop_thread: LoopThread) -> Iterator[SimulatedCloud]:
    with simulated_cloud(loop_thread) as cloud:
        yield cloud


@pytest.fixture(scope="module")
def outside(loop_thread: LoopThread, another_cloud: SimulatedCloud) -> SimulatedCloud:
    """A simulated cloud that only the gateways of this module call: nothing has reached it yet."""
    loop_thread.run(another_cloud.reset())
    return another_cloud
