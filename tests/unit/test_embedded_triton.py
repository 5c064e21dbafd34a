"""The embedded Triton, with a real server: what keeps it up, and that it leaves nothing behind."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import httpx
import numpy as np
import pytest
import tritonclient.grpc.aio as grpcclient
from tritonclient.utils import InferenceServerException

from gateway.endpoints.triton import TritonNotInstalled, TritonServerError, TritonStartError
from gateway.endpoints.triton.installation import Installation
from gateway.endpoints.triton.server.log import LogFilter
from gateway.endpoints.triton.server.options import Loading, TritonOptions
from gateway.endpoints.triton.server.ports import TritonPorts
from gateway.endpoints.triton.server.server import TritonServer
from gateway.endpoints.triton.server.states import Backoff, ServerState
from tests.live import wait_until

pytest.importorskip("pytriton", reason="the embedded Triton needs Python 3.11 or 3.12")

pytestmark = pytest.mark.anyio

ROOT = Path(__file__).resolve().parents[2]
PATIENCE_S = 60.0  # for a slow machine that does other things too
OPTIONS = TritonOptions(
    repositories=(ROOT / "models",),
    models=("simple",),
    stop_grace_s=3.0,
    restart_grace_s=0.5,
    backoff_first_s=0.05,
)


def replaced(**changes: object) -> TritonOptions:
    return replace(OPTIONS, **changes)  # type: ignore[arg-type]


async def seven_and_one(ports: TritonPorts) -> int:
    """7 + 1 by the model `simple`."""
    async with grpcclient.InferenceServerClient(f"127.0.0.1:{ports.grpc}") as client:
        inputs = []
        for name, value in (("INPUT0", 7), ("INPUT1", 1)):
            tensor = grpcclient.InferInput(name, [1, 16], "INT32")
            tensor.set_data_from_numpy(np.full((1, 16), value, dtype=np.int32))
            inputs.append(tensor)
        result = await client.infer("simple", inputs, client_timeout=PATIENCE_S)
        return int(result.as_numpy("OUTPUT0")[0, 0])


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not condition():  # noqa: ASYNC110  # the kernel's state: there is no event for it
            await asyncio.sleep(0.02)


def group(leader: int) -> list[int]:
    """The living processes of a process group, as the kernel sees them."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            state, _, leads = stat.read_text().rpartition(")")[2].split()[:3]
            if int(leads) == leader and state != "Z":
                found.append(int(stat.parent.name))
    return found


def name_of(leader: int) -> str:
    """What the files of a server begin with, in /dev/shm and in the temporary directory."""
    command = Path(f"/proc/{leader}/cmdline").read_text()
    return command.partition("shm-region-prefix-name=")[2].partition("-\0")[0]


def files(name: str) -> set[Path]:
    places = (Path("/dev/shm"), Path(tempfile.gettempdir()))
    return {path for place in places for path in place.glob(f"{name}*")}


def pid(server: TritonServer) -> int:
    assert server.pid is not None
    return server.pid


async def test_it_serves_reports_and_leaves_nothing_behind() -> None:
    states: list[ServerState] = []
    loading: list[Loading] = []
    server = TritonServer(OPTIONS, on_state=states.append, on_loading=loading.append)
    async with server:
        assert server.state is ServerState.UP
        assert await seven_and_one(server.ports) == 8
        leader = pid(server)
        assert len(group(leader)) == 2  # the server and one stub
        name = name_of(leader)
        assert len(files(name)) > 1  # a directory and shared memory
    assert group(leader) == []
    assert files(name) == set()
    assert states == [ServerState.STARTING, ServerState.UP, ServerState.CLOSED]
    assert (loading[-1].loaded, loading[-1].total) == (("simple",), 1)
    assert server.pid is None
    await server.aclose()  # again: nothing happens
    with pytest.raises(TritonServerError, match="cannot restart"):
        await server.restart("it is closed")


async def test_a_killed_server_comes_back_on_its_ports() -> None:
    states: list[ServerState] = []
    async with TritonServer(OPTIONS, on_state=states.append) as server:
        before, ports = pid(server), server.ports
        os.kill(before, signal.SIGKILL)
        await until(lambda: server.restarts == 1 and server.state is ServerState.UP)
        assert await seven_and_one(server.ports) == 8
        assert server.ports == ports
        assert pid(server) != before
        assert group(before) == []
    assert states == [
        ServerState.STARTING,
        ServerState.UP,
        ServerState.BACKING_OFF,
        ServerState.STARTING,
        ServerState.UP,
        ServerState.CLOSED,
    ]


async def test_a_gray_server_is_healed_by_one_restart_however_many_ask() -> None:
    """Without its stub Triton says that it is ready and fails every inference."""

    async with TritonServer(OPTIONS) as server:
        before = pid(server)
        (stub,) = set(group(before)) - {before}
        os.kill(stub, signal.SIGKILL)
        with pytest.raises(InferenceServerException):
            await seven_and_one(server.ports)
        async with httpx.AsyncClient(trust_env=False) as client:
            ready = await client.get(f"http://127.0.0.1:{server.ports.http}/v2/health/ready")
        assert ready.status_code == 200
        assert server.state is ServerState.UP  # which claims no health, so it may say so
        async with asyncio.timeout(PATIENCE_S):
            await asyncio.gather(*(server.restart("canary failed") for _ in range(5)))
        assert server.restarts == 1
        assert await seven_and_one(server.ports) == 8
        assert group(before) == []


async def test_a_server_that_hangs_is_closed_all_the_same() -> None:
    async with TritonServer(replaced(stop_grace_s=0.5)) as server:
        leader = pid(server)
        name = name_of(leader)
        os.kill(leader, signal.SIGSTOP)
    assert group(leader) == []
    assert files(name) == set()


async def test_a_server_that_answers_nothing_is_killed_and_started_again() -> None:
    told: list[ServerState] = []
    async with TritonServer(
        replaced(silent_s=1.0), on_silent=lambda: told.append(server.state)
    ) as server:
        before = pid(server)
        os.kill(before, signal.SIGSTOP)
        await until(lambda: server.restarts == 1 and server.state is ServerState.UP)
        assert told == [ServerState.UP]
        assert group(before) == []
        assert await seven_and_one(server.ports) == 8


async def test_a_server_whose_answers_somebody_hears_is_left_alone() -> None:
    answers = itertools.count(1)
    looks: list[int] = []

    def heard() -> int:
        looks.append(next(answers))
        return looks[-1]

    async with TritonServer(replaced(silent_s=0.5), heard=heard) as server:
        before = pid(server)
        os.kill(before, signal.SIGSTOP)
        try:
            await until(lambda: len(looks) > 40)  # twice for each look, of which five suffice
            assert (pid(server), server.restarts) == (before, 0)
        finally:
            os.kill(before, signal.SIGCONT)


GATEWAY = """
import asyncio, sys
from pathlib import Path
from gateway.endpoints.triton.server.options import TritonOptions
from gateway.endpoints.triton.server.server import TritonServer
from tests.live import wait_until

async def main():
    options = TritonOptions(repositories=(Path(sys.argv[1]),), models=("simple",), stop_grace_s=1)
    async with TritonServer(options) as server:
        print(server.pid, flush=True)
        await asyncio.sleep(3600)

asyncio.run(main())
"""


def test_a_gateway_that_is_killed_leaves_no_server() -> None:
    command = [sys.executable, "-c", GATEWAY, str(ROOT / "models")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=ROOT) as gateway:
        assert gateway.stdout is not None
        leader = int(gateway.stdout.readline())
        assert group(leader)
        name = name_of(leader)
        gateway.kill()
    give_up = time.monotonic() + PATIENCE_S
    while group(leader) and time.monotonic() < give_up:
        time.sleep(0.05)
    assert group(leader) == []

    async def another() -> None:
        async with TritonServer(OPTIONS):
            assert files(name) == set()  # what the killed one could not take away itself

    os.utime(Path(tempfile.gettempdir(), name), (0, 0))  # as if some time had passed
    asyncio.run(another())


async def test_a_model_that_does_not_load_is_named_and_the_others_serve(tmp_path: Path) -> None:
    (tmp_path / "broken/1").mkdir(parents=True)
    (tmp_path / "broken/1/model.py").write_text("raise RuntimeError('no such weights')\n")
    config = (ROOT / "models/simple/config.pbtxt").read_text()
    (tmp_path / "broken/config.pbtxt").write_text(config.replace('"simple"', '"broken"'))
    repositories = (*OPTIONS.repositories, tmp_path)

    options = replaced(repositories=repositories, models=("simple", "broken"))
    async with TritonServer(options) as server:
        assert list(server.unavailable) == ["broken"]
        assert "no such weights" in server.unavailable["broken"]
        assert await seven_and_one(server.ports) == 8


async def test_a_first_start_that_fails_says_so_and_leaves_nothing() -> None:
    async with TritonServer(OPTIONS) as first:
        second = TritonServer(replaced(ports=first.ports))
        with pytest.raises(TritonStartError):
            await second.start()
        assert second.state is ServerState.FAILED
        assert second.pid is None
        assert await seven_and_one(first.ports) == 8


async def test_a_start_has_a_deadline() -> None:
    server = TritonServer(replaced(start_timeout_s=0.05))
    with pytest.raises(TritonStartError, match=r"within 0\.05 s"):
        await server.start()
    assert server.pid is None


async def test_a_repository_that_is_not_there_is_named() -> None:
    with pytest.raises(TritonServerError, match="nowhere is not a directory"):
        await TritonServer(replaced(repositories=(Path("nowhere"),))).start()


async def test_the_server_listens_on_the_loopback_alone_and_knows_no_secrets(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("CLOUD_API_KEY", "secret")
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy.invalid")

    async with TritonServer(OPTIONS) as server:
        for environment in environments(pid(server)):
            assert b"CLOUD_API_KEY" not in environment
            assert b"HTTPS_PROXY" not in environment
        ports = {server.ports.http, server.ports.grpc, server.ports.metrics}
        listening: dict[int, set[str]] = {}

        def all_listen() -> bool:
            listening.update(listeners())
            return ports <= listening.keys()

        # The system's table is read in pieces: what opens or closes meanwhile can hide a line.
        wait_until(all_listen, 60.0)
        for port in ports:
            assert listening[port] <= {"0100007F", "0000000000000000FFFF00000100007F"}


def environments(leader: int) -> list[bytes]:
    return [Path(f"/proc/{process}/environ").read_bytes() for process in group(leader)]


def listeners() -> dict[int, set[str]]:
    found: dict[int, set[str]] = {}
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in Path(table).read_text().splitlines()[1:]:
            _, local, _, state = line.split()[:4]
            address, port = local.split(":")
            if state == "0A":
                found.setdefault(int(port, 16), set()).add(address)
    return found


@pytest.mark.parametrize(
    ("package", "python", "says"),
    [
        ("no_such_package", (3, 12), r"pip install 'spillway-gateway\[embedded\]'"),
        ("pytriton", (3, 13), r"use Python 3\.11 or 3\.12"),
        ("pytriton", (3, 2), "lacks triton_python_backend_stub for Python 3.2"),
    ],
)
def test_where_it_cannot_run_it_says_what_to_do(
    package: str, python: tuple[int, int], says: str
) -> None:
    with pytest.raises(TritonNotInstalled, match=says):
        Installation.find(package, python)


READY = 'I1120 20:12:13.123456 77 grpc_server.cc:2558] "Started GRPCInferenceService at ..."'


@pytest.mark.parametrize(
    ("line", "recorded"),
    [
        (
            'E1120 20:12:13.123456 77 python_be.cc:12] "failed for Janet"',
            (logging.ERROR, "python_be.cc:12 (message withheld: it may quote a call)"),
        ),
        (
            'I1120 20:12:13.123456 77 http_server.cc:9] "[request id: Janet] failed"',
            (logging.DEBUG, "http_server.cc:9 (message withheld: it may quote a call)"),
        ),
        ("Janet said a model's print()", None),
        (
            'E1120 20:12:13.123456 77 stub_launcher.cc:5] "Stub process is not healthy."',
            (logging.ERROR, 'stub_launcher.cc:5 "Stub process is not healthy."'),
        ),
    ],
)
def test_once_it_serves_nothing_of_a_call_reaches_the_log(
    line: str, recorded: tuple[int, str] | None
) -> None:
    log = LogFilter()
    assert log.record(READY) == (
        logging.DEBUG,
        'grpc_server.cc:2558 "Started GRPCInferenceService at ..."',
    )
    assert log.record(line) == recorded


def test_while_it_loads_its_words_are_logged() -> None:
    log = LogFilter()
    assert log.record("Traceback of a model") == (logging.INFO, "Traceback of a model")
    assert log.record("+-----+") is None
    error = 'E1120 20:12:13.123456 77 model_lifecycle.cc:6] "failed to load"'
    assert log.record(error) == (logging.ERROR, 'model_lifecycle.cc:6 "failed to load"')


def test_what_lies_beside_the_versions_of_a_model_is_no_warning() -> None:
    said = "ignore version directory 'text' which fails to convert to integral number"
    found = LogFilter().record(f"W1120 20:12:13.123456 77 model_lifecycle.cc:111] {said}")
    assert found == (logging.DEBUG, f"model_lifecycle.cc:111 {said}")


def test_pauses_double_up_to_the_cap_and_start_again_after_a_long_run() -> None:
    backoff = Backoff(replaced(backoff_first_s=1.0, backoff_cap_s=5.0, backoff_forgotten_s=60.0))
    assert [backoff.pause_s(0.1) for _ in range(5)] == [1.0, 2.0, 4.0, 5.0, 5.0]
    assert backoff.pause_s(60.0) == 1.0
