"""An embedded server that takes new versions while it runs, and from whom."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import signal
import stat
import tempfile
from pathlib import Path

import grpc
import httpx
import pytest
from tritonclient.grpc import service_pb2, service_pb2_grpc

from gateway.config.reading import parse
from gateway.endpoints.triton import control
from gateway.endpoints.triton.control import TritonControl
from gateway.endpoints.triton.server.home import ServerDirectory
from gateway.endpoints.triton.server.options import TritonOptions
from gateway.endpoints.triton.server.server import TritonServer
from gateway.endpoints.triton.supervisor import TritonSupervisor
from gateway.models.registry.fallback import VersionFallback
from tests.live import MODELS

pytest.importorskip("pytriton", reason="the embedded Triton needs Python 3.11 or 3.12")

pytestmark = pytest.mark.anyio


async def test_only_who_has_the_key_can_tell_it_to_load_over_either_protocol(
    tmp_path: Path,
) -> None:
    shutil.copytree(MODELS / "simple", tmp_path / "models" / "simple")

    options = TritonOptions((tmp_path / "models",), reload=True, stop_grace_s=1.0)
    async with TritonServer(options) as server:
        assert server.unavailable == {}
        (found,) = control.running(tmp_path / "models")
        assert found.http_port == server.ports.http
        assert len(found.key) == 64
        url = f"http://127.0.0.1:{server.ports.http}/v2/repository/models/simple/load"
        async with httpx.AsyncClient(trust_env=False, timeout=60) as client:
            assert (await client.post(url, json={})).status_code == 403
            wrong = control.headers("0" * 64)
            assert (await client.post(url, json={}, headers=wrong)).status_code == 403
            index = url.replace("models/simple/load", "index")
            assert (await client.post(index, json={})).status_code == 403
            told = await client.post(url, json={}, headers=control.headers(found.key))
            assert told.status_code == 200
        target = f"127.0.0.1:{server.ports.grpc}"
        async with grpc.aio.insecure_channel(
            target, options=[("grpc.enable_http_proxy", 0)]
        ) as channel:
            stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
            unload = service_pb2.RepositoryModelUnloadRequest(model_name="simple")
            with pytest.raises(grpc.aio.AioRpcError, match="restricted"):
                await stub.RepositoryModelUnload(unload)
            key = tuple(control.headers(found.key).items())
            asked = service_pb2.RepositoryIndexRequest()
            listed = await stub.RepositoryIndex(asked, metadata=key)
            assert [model.state for model in listed.models] == ["READY"]
    assert control.running(tmp_path / "models") == []


async def test_without_reload_nobody_can_tell_it_anything(tmp_path: Path) -> None:
    shutil.copytree(MODELS / "simple", tmp_path / "models" / "simple")

    async with TritonServer(TritonOptions((tmp_path / "models",), stop_grace_s=1.0)) as server:
        (found,) = control.running(tmp_path / "models")
        assert found.key == ""
        url = f"http://127.0.0.1:{server.ports.http}/v2/repository/models/simple/load"
        async with httpx.AsyncClient(trust_env=False) as client:
            told = await client.post(url, json={})
            assert told.status_code >= 400
            assert not await server.revive("simple")
            assert "not allowed" in told.text


def stubs(server: TritonServer) -> dict[str, int]:
    """The processes of its models."""
    children = Path(f"/proc/{server.pid}/task/{server.pid}/children").read_text().split()
    found = {}
    for pid in map(int, children):
        for name in ("simple_identity", "simple"):
            if f"/{name}/".encode() in Path(f"/proc/{pid}/cmdline").read_bytes():
                found[name] = pid
    return found


async def answers(server: TritonServer) -> bool:
    message = service_pb2.ModelInferRequest(model_name="simple")
    for name in ("INPUT0", "INPUT1"):
        message.inputs.add(name=name, datatype="INT32", shape=[1, 16])
        message.raw_input_contents.append(bytes(64))
    options = [("grpc.enable_http_proxy", 0)]
    target = f"127.0.0.1:{server.ports.grpc}"
    async with grpc.aio.insecure_channel(target, options=options) as channel:
        try:
            await service_pb2_grpc.GRPCInferenceServiceStub(channel).ModelInfer(message)
        except grpc.aio.AioRpcError as exc:
            if "is not healthy" in str(exc.details()):
                return False
            raise
    return True


async def test_a_model_whose_process_has_died_is_loaded_anew_and_the_others_go_on(
    tmp_path: Path,
) -> None:
    for name in ("simple", "simple_identity"):
        shutil.copytree(MODELS / name, tmp_path / name)
    local = {"kind": "triton", "zone": "onprem", "embedded": True, "reload": True}
    document = {
        "endpoints": {"local": {**local, "repository": str(tmp_path)}},
        "models": {"simple": {"served_by": [{"endpoint": "local"}]}},
    }
    now_s, came_up, restarts = [0.0], list[str](), list[bool]()
    spawned: list[asyncio.Task[None]] = []
    supervisor = TritonSupervisor(
        parse(json.dumps(document)),
        lambda: now_s[0],
        lambda text: None,
        lambda work: spawned.append(asyncio.create_task(work)),
        lambda: restarts.append(True),
        VersionFallback,
    )
    supervisor.moved = came_up.append
    async with contextlib.AsyncExitStack() as stack:
        await supervisor.start(stack)
        server, restart = supervisor.servers["local"], supervisor.restarter("local")
        before = stubs(server)
        os.kill(before["simple"], signal.SIGKILL)
        assert not await answers(server)
        came_up.clear()
        restart("simple", "it died")
        await spawned[-1]
        assert await answers(server)
        after = stubs(server)
        assert after["simple"] != before["simple"]
        assert after["simple_identity"] == before["simple_identity"]
        assert (server.restarts, restarts, came_up) == (0, [], ["local"])
        assert not await server.revive("nobody")
        now_s[0] += 30  # it dies again soon: the whole server, then
        restart("simple", "it died again")
        await spawned[-1]
        assert (server.restarts, restarts) == (1, [True])


def test_the_key_is_for_its_owner_alone(tmp_path: Path) -> None:
    home = ServerDirectory()
    try:
        TritonControl(1, "secret", (str(tmp_path.resolve()),)).publish(home.path)
        mode = stat.S_IMODE((home.path / "control.json").stat().st_mode)
        assert mode == 0o600
        assert stat.S_IMODE(home.path.stat().st_mode) == 0o700
        assert [found.key for found in control.running(tmp_path)] == ["secret"]
        assert control.running(Path("/")) == []
    finally:
        home.close()


def test_a_server_whose_gateway_is_gone_is_not_believed(tmp_path: Path) -> None:
    left = Path(tempfile.mkdtemp(prefix=ServerDirectory.PREFIX))
    try:
        (left / "lock").touch()
        told = {"http_port": 1, "key": "k", "repositories": [str(tmp_path.resolve())]}
        (left / "control.json").write_text(json.dumps(told))
        assert control.running(tmp_path) == []
    finally:
        shutil.rmtree(left)


@pytest.mark.skipif(os.getuid() != 0, reason="only root can make another user's directory")
def test_a_directory_of_another_user_is_not_believed(tmp_path: Path) -> None:
    home = ServerDirectory()
    try:
        TritonControl(1, "k", (str(tmp_path.resolve()),)).publish(home.path)
        os.chown(home.path, 12345, 12345)
        assert control.running(tmp_path) == []
        os.chown(tmp_path, 12345, 12345)  # unless the repository is that user's too
        assert len(control.running(tmp_path)) == 1
    finally:
        home.close()
