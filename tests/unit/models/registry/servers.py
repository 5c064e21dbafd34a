"""Real servers for registries: an object store, MLflow, a web server, and one that misbehaves."""

from __future__ import annotations

import contextlib
import functools
import http.server
import importlib.util
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from loadtests.ports import free_port
from tests.live import wait_until

_START_S = 90.0


def _interpreter(package: str, variable: str) -> str:
    """That has the package: ours, or the one that the environment names."""
    if named := os.environ.get(variable):
        return named
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"{package} is not installed; {variable} can name a Python that has it")
    return sys.executable


@contextlib.contextmanager
def _running(command: list[str], url: str, scratch: Path, **variables: str) -> Iterator[None]:
    clean = {k: v for k, v in os.environ.items() if not k.lower().endswith("_proxy")}
    with (scratch / "log").open("wb") as log:
        process = subprocess.Popen(
            command, cwd=scratch, env=clean | variables, stdout=log, stderr=log,
            start_new_session=True,
        )  # fmt: skip
    try:
        wait_until(lambda: process.poll() is not None or _answers(url), _START_S)
        assert process.poll() is None, (scratch / "log").read_text()[-2000:]
        yield
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, 9)
        process.wait(10)


def _answers(url: str) -> bool:
    with contextlib.suppress(httpx.TransportError), httpx.Client(trust_env=False) as client:
        return client.get(url).status_code < 500
    return False


@contextlib.contextmanager
def object_store(scratch: Path) -> Iterator[tuple[str, str, str]]:
    """moto, which checks signatures as AWS does; address, access key and secret key."""
    python = _interpreter("moto", "MOTO_PYTHON")
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    command = [python, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    # Three calls make the user, its rights and its key, and the bucket; then everything is checked.
    with _running(command, f"{url}/moto-api/", scratch, INITIAL_NO_AUTH_ACTION_COUNT="4"):
        yield (f"127.0.0.1:{port}", *_keys(url))


def _keys(url: str) -> tuple[str, str]:
    with httpx.Client(base_url=url, trust_env=False, headers=_IAM) as client:
        client.post("/", data={"Action": "CreateUser", "UserName": "tests"}).raise_for_status()
        allow = (
            '{"Version":"2012-10-17","Statement":{"Effect":"Allow","Action":"s3:*","Resource":"*"}}'
        )
        client.post(
            "/", data={"Action": "PutUserPolicy", "UserName": "tests", "PolicyName": "all",
                       "PolicyDocument": allow},
        ).raise_for_status()  # fmt: skip
        made = client.post("/", data={"Action": "CreateAccessKey", "UserName": "tests"})
        made.raise_for_status()
        client.put(
            "/models", headers={"authorization": _IAM["authorization"].replace("iam", "s3")}
        ).raise_for_status()
    text = made.text
    key = text.partition("<AccessKeyId>")[2].partition("<")[0]
    return key, text.partition("<SecretAccessKey>")[2].partition("<")[0]


_IAM = {
    "authorization": "AWS4-HMAC-SHA256 Credential=x/20261122/us-east-1/iam/aws4_request, "
    "SignedHeaders=host, Signature=x"
}


@contextlib.contextmanager
def mlflow(scratch: Path) -> Iterator[str]:
    python = _interpreter("mlflow", "MLFLOW_PYTHON")
    port = free_port()
    command = [
        python, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(port),
        "--workers", "1", "--backend-store-uri", f"sqlite:///{scratch}/mlflow.sqlite",
        "--artifacts-destination", str(scratch / "artifacts"),
    ]  # fmt: skip
    quiet = {"MLFLOW_DISABLE_TELEMETRY": "true", "DO_NOT_TRACK": "true"}
    path = f"{Path(python).parent}:{os.environ.get('PATH', os.defpath)}"
    with _running(command, f"http://127.0.0.1:{port}/health", scratch, PATH=path, **quiet):
        yield f"127.0.0.1:{port}"


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        """Nobody reads it."""


@contextlib.contextmanager
def website(directory: Path) -> Iterator[str]:
    """What any web server does with a directory."""
    handler = functools.partial(_Quiet, directory=str(directory))
    with _served(handler) as port:
        yield f"http://127.0.0.1:{port}"


Answer = Callable[[http.server.BaseHTTPRequestHandler], None]


@contextlib.contextmanager
def misbehaving(answer: Answer) -> Iterator[str]:
    """Whatever `answer` writes."""

    class Handler(_Quiet):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self.close_connection = True
            with contextlib.suppress(ConnectionError):
                answer(self)

        do_PUT = do_POST = do_GET

    with _served(Handler) as port:
        yield f"http://127.0.0.1:{port}"


@contextlib.contextmanager
def _served(handler: Callable[..., http.server.BaseHTTPRequestHandler]) -> Iterator[int]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join(5)
