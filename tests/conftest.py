"""What every test may use: one running gateway with its real Triton, and one simulated cloud."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from gateway.demo.cloud.process import SimulatedCloud
from tests.live import MODELS, LiveGateway, LoopThread, serving, settings, simulated_cloud


@pytest.fixture(scope="session")
def loop_thread() -> Iterator[LoopThread]:
    loop = LoopThread()
    yield loop
    loop.close()


@pytest.fixture(scope="session")
def cloud(loop_thread: LoopThread) -> Iterator[SimulatedCloud]:
    with simulated_cloud(loop_thread) as found:
        yield found


@pytest.fixture(scope="session")
def gateway(
    cloud: SimulatedCloud, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LiveGateway]:
    """`spillway serve` with an embedded Triton over models/ and three doors to the cloud."""
    pytest.importorskip("pytriton", reason="the embedded Triton needs Python 3.11 or 3.12")
    if not (MODELS / "minilm" / "1" / "model.onnx").exists():
        pytest.fail("the models are not built: run `make models`")
    scratch = tmp_path_factory.mktemp("gateway")
    with serving(settings(cloud, scratch), scratch) as found:
        yield found
