"""One server with every model of models/, for all tests of this directory."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest
import tritonclient.grpc as grpcclient
import tritonclient.http as httpclient

from gateway.endpoints.triton.server.options import TritonOptions
from gateway.endpoints.triton.server.ports import TritonPorts

from .serving import MODELS, TEST_MODELS, running


@pytest.fixture(scope="session")
def built() -> None:
    """Nothing to do where the models were built already, which is the usual case."""
    subprocess.run([sys.executable, str(MODELS / "build.py")], check=True)


@pytest.fixture(scope="session")
def ports(built: None) -> Iterator[TritonPorts]:
    with running(TritonOptions(repositories=(MODELS, TEST_MODELS))) as server:
        assert server.unavailable == {}
        yield server.ports


@pytest.fixture
def over_grpc(ports: TritonPorts) -> Iterator[grpcclient.InferenceServerClient]:
    with grpcclient.InferenceServerClient(f"127.0.0.1:{ports.grpc}") as client:
        yield client


@pytest.fixture
def over_http(ports: TritonPorts) -> Iterator[httpclient.InferenceServerClient]:
    with httpclient.InferenceServerClient(f"127.0.0.1:{ports.http}") as client:
        yield client
