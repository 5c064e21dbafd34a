"""An embedded server that takes new versions while it runs, and from whom."""

from __future__ import annotations

import json
import os
import shutil
import stat
import tempfile
from pathlib import Path

import grpc
import httpx
import pytest
from tritonclient.grpc import service_pb2, service_pb2_grpc

from gateway.endpoints.triton import control
from gateway.endpoints.triton.control import TritonControl
from gateway.endpoints.triton.server.home import ServerDirectory
from gateway.endpoints.triton.server.options import TritonOptions
from gateway.endpoints.triton.server.server import TritonServer
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
            assert "not allowed" in told.text


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
