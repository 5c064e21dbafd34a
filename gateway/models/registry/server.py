"""A Triton that is told to load, and asked the canary, over its own HTTP."""

from __future__ import annotations

import ssl
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx

from gateway.config import external_addresses
from gateway.core import ambient
from gateway.core.errors import GatewayError
from gateway.core.reply import RestBody
from gateway.endpoints.triton import control
from gateway.models.declaration import Declaration
from gateway.models.registry import RegistryError
from gateway.models.registry import canary as canaries
from gateway.protocols.oip.rest import encode_request
from gateway.protocols.oip.rest_reply import decode_response

_LOAD_S = 600.0  # a large engine takes minutes
_INFER_S = 60.0  # the first call of a model builds what it needs
_POLLED_S = 30.0  # for a server that looks for itself what is new
_POLL_S = 0.2
_HEADER_LENGTH = "inference-header-content-length"


class ServerError(RegistryError):
    """The server did not load a version, or answers it wrongly."""


class WrongAnswer(ServerError):
    """The server answers, and not what is declared."""


@dataclass(frozen=True, slots=True)
class Server:
    """One Triton that serves the repository."""

    url: str
    key: str = ""
    accepts_versions: bool = True  # it takes new versions while it runs

    def load(self, model: str, version: int) -> None:
        """Returns when this version is the one that serves. Raises ServerError."""
        with self._client(_LOAD_S) as client:
            answer = _sent(client, "POST", f"/v2/repository/models/{model}/load", json={})
            if answer.status_code >= 400 and not _looks_for_itself(answer):
                raise ServerError(f"Triton did not load {model}: {_why(answer)}")
            by_itself = answer.status_code >= 400
            self._until_ready(client, model, version, _POLLED_S if by_itself else 0.0)

    def ready(self, model: str, version: int) -> bool:
        with self._client(_INFER_S) as client:
            return _sent(client, "GET", _path(model, version, "ready")).status_code == 200

    def serving(self, model: str) -> int:
        """The version that callers get."""
        with self._client(_INFER_S) as client:
            answer = _sent(client, "GET", f"/v2/models/{model}")
        try:
            return max(int(version) for version in answer.json()["versions"])
        except (ValueError, KeyError, TypeError):
            raise ServerError(
                f"Triton at {self.url} serves no version of {model}: {_why(answer)}"
            ) from None

    def ask(self, declaration: Declaration, version: int, rows: int) -> float:
        """The seconds that the canary took. Raises ServerError for another answer than declared,
        and, where no canary is, unless the version is loaded."""
        with self._client(_INFER_S) as client:
            since_s = ambient.monotonic_s()
            if declaration.canary is None:
                self._until_ready(client, declaration.name, version, 0.0)
            elif declaration.decoupled:
                _generated(client, declaration, version)
            else:
                _inferred(client, declaration, version, rows)
            return ambient.monotonic_s() - since_s

    def _until_ready(self, client: httpx.Client, model: str, version: int, most_s: float) -> None:
        end_s = ambient.monotonic_s() + most_s
        while _sent(client, "GET", _path(model, version, "ready")).status_code != 200:
            if ambient.monotonic_s() >= end_s:
                raise ServerError(
                    f"Triton does not serve version {version} of {model}: is there a "
                    "version_policy in its config.pbtxt that leaves it out?"
                )
            time.sleep(_POLL_S)

    def _client(self, timeout_s: float) -> httpx.Client:
        headers = control.headers(self.key)
        # Nothing here is encrypted: it is this machine's loopback, or a name of the premises.
        unused = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        return httpx.Client(
            base_url=self.url, headers=headers, trust_env=False, timeout=timeout_s, verify=unused
        )


def over(repository: Path, url: str | None) -> list[Server]:
    """The server that was named; else those that run over the repository on this machine."""
    if url is not None:
        host = urlsplit(url).hostname
        if urlsplit(url).scheme != "http" or not host or external_addresses.could_be_outside(host):
            raise RegistryError(f"{url}: write http://host:port of a Triton on the premises")
        return [Server(url.rstrip("/"))]
    return [
        Server(
            f"http://127.0.0.1:{server.http_port}", server.key, accepts_versions=bool(server.key)
        )
        for server in control.running(repository)
    ]


def _inferred(client: httpx.Client, declaration: Declaration, version: int, rows: int) -> None:
    body, length = encode_request(canaries.call(declaration, rows), binary_outputs=True)
    answer = _sent(
        client, "POST", _path(declaration.name, version, "infer"),
        content=body, headers={_HEADER_LENGTH: str(length)},
    )  # fmt: skip
    if answer.status_code != 200:
        raise WrongAnswer(f"the canary failed: {_why(answer)}")
    header = answer.headers.get(_HEADER_LENGTH)
    try:
        reply = decode_response(RestBody(answer.content, int(header) if header else None))
    except GatewayError as exc:
        raise WrongAnswer(f"the canary failed: {exc}") from None
    # guard: R2.canary-answer -> if (problem := ''):
    if problem := canaries.wrong(declaration, reply.outputs, rows):
        raise WrongAnswer(problem)


def _generated(client: httpx.Client, declaration: Declaration, version: int) -> None:
    parameters = canaries.scalars(declaration)
    path = _path(declaration.name, version, "generate_stream")
    answer = _sent(client, "POST", path, json=parameters)
    if answer.status_code != 200 or not answer.text.startswith("data:"):
        raise WrongAnswer(f"the canary failed: {_why(answer)}")
    if '"error"' in answer.text or not any(f'"{n}"' in answer.text for n in declaration.outputs):
        raise WrongAnswer("the canary's stream does not have the declared outputs")


def _sent(client: httpx.Client, method: str, path: str, **more: Any) -> httpx.Response:
    try:
        return client.request(method, path, **more)
    except httpx.TransportError as exc:
        raise ServerError(
            f"Triton at {client.base_url} does not answer ({type(exc).__name__}): is it up?"
        ) from None


def _path(model: str, version: int, what: str) -> str:
    return f"/v2/models/{model}/versions/{version}/{what}"


def _looks_for_itself(answer: httpx.Response) -> bool:
    """In the modes `poll` and `none` nobody can tell it to load."""
    return "not allowed" in answer.text


def _why(answer: httpx.Response) -> str:
    try:
        error = answer.json()["error"]
    except (ValueError, KeyError, TypeError):
        return f"status {answer.status_code}"
    return str(error).split("\n\nAt:")[0][:500]
