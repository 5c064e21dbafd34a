"""What every test may use: one running gateway with its real Triton, and one simulated cloud."""

from __future__ import annotations

import gc
import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hypothesis
import pytest

from gateway.core.compiled import is_compiled
from gateway.demo.cloud.process import SimulatedCloud
from tests import processes
from tests.live import (
    CL100K,
    MODELS,
    LiveGateway,
    LoopThread,
    serving,
    settings,
    simulated_cloud,
    wait_until,
)

_in_a_test: list[bool] = []

if TYPE_CHECKING:
    from xdist.remote import Producer
    from xdist.scheduler import Scheduling


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--quick", action="store_true", help="only what starts no process")


def pytest_configure(config: pytest.Config) -> None:
    gc.disable()
    # An example's time is the machine's, not the code's.
    hypothesis.settings.register_profile("untimed", deadline=None)
    hypothesis.settings.load_profile("untimed")
    if config.getoption("--quick"):
        sys.addaudithook(_refuse_processes)


def _refuse_processes(event: str, arguments: tuple[object, ...]) -> None:
    if event in ("subprocess.Popen", "os.posix_spawn", "os.fork") and _in_a_test:
        raise RuntimeError("this test starts a process: list its file in tests/not_quick.txt")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol() -> Iterator[None]:
    _in_a_test.append(True)
    try:
        return (yield)
    finally:
        _in_a_test.pop()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    if config.getoption("--quick") and collection_path.suffix == ".py":
        return not processes.is_quick(str(collection_path.relative_to(config.rootpath))) or None
    return None


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a coroutine that is marked `leaping` on the clock of tests.unit.harness."""
    test = pyfuncitem.obj
    if not inspect.iscoroutinefunction(test) or not pyfuncitem.get_closest_marker("leaping"):
        return None
    from tests.unit.harness import run  # only where a test needs it

    run(test(**{name: pyfuncitem.funcargs[name] for name in inspect.signature(test).parameters}))
    return True


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> Scheduling | None:
    """Where several processes run the tests; `--dist` can name another way."""
    return processes.shared_out(config, log) if config.option.dist == "load" else None


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """After they were shuffled."""
    items.sort(key=lambda item: processes.rank(item.nodeid))
    compiled, reruns = is_compiled(), config.pluginmanager.hasplugin("rerunfailures")
    for item in items:
        if compiled and item.get_closest_marker("interpreted") is not None:
            item.add_marker(pytest.mark.skip(reason="is about Python that is not compiled"))
        if reruns and processes.tried_again(item.nodeid.partition("::")[0]):
            item.add_marker(pytest.mark.flaky(reruns=1))


def pytest_collection_finish() -> None:
    """What the whole run keeps is not searched for garbage again and again.

    With 8,000 tests collected, full collections stop the process for up to 1.1 s (the first quarter
    of a run, by `gc.callbacks`), in the middle of whatever a test does at that moment. They are not
    searched while they are collected either: that was half of what collecting costs.
    """
    gc.freeze()
    gc.enable()


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


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
    document = settings(cloud, scratch)
    document["endpoints"]["local"]["repository"] = str(MODELS)  # clients call them all
    if CL100K.exists():
        document["models"]["minilm"]["token_encoding"] = str(CL100K)
    with serving(document, scratch) as found:
        wait_until(lambda: _canaries(found) >= _served_here(document), 60.0)
        yield found


def _served_here(document: dict[str, Any]) -> int:
    places = (place for model in document["models"].values() for place in model["served_by"])
    return sum(place["endpoint"] == "local" for place in places)


def _canaries(gateway: LiveGateway) -> int:
    """The first ones run beside the first calls, and would be counted with theirs."""
    told = re.findall(
        r'^spillway_canaries_total{endpoint="local".*} (\d+)', gateway.metrics(), re.M
    )
    return sum(map(int, told))
