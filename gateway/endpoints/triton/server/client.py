"""What an embedded Triton says of itself over HTTP."""

from __future__ import annotations

import json
import logging
import ssl
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Self

import httpx

from gateway.core import ambient
from gateway.endpoints.triton import TritonStartError, providers
from gateway.endpoints.triton.providers import Provided
from gateway.endpoints.triton.server.launch import has_gpu
from gateway.endpoints.triton.server.ports import LOOPBACK, TritonPorts

logger = logging.getLogger("gateway.triton")
_REVIVED = "spillway_revived"  # a parameter that no model reads


class TritonClient:
    def __init__(self, ports: TritonPorts, headers: Mapping[str, str]) -> None:
        self._metrics = f"http://{LOOPBACK}:{ports.metrics}/metrics"
        # Without the environment: it may name a proxy, even for the loopback address. Without the
        # certificates of the world: nothing here is encrypted, and reading them takes 100 ms.
        self.http = httpx.AsyncClient(
            base_url=f"http://{LOOPBACK}:{ports.http}",
            headers=headers,
            trust_env=False,
            verify=ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT),
            timeout=2.0,
        )

    async def __aenter__(self) -> Self:
        await self.http.__aenter__()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.http.aclose()

    async def lives(self) -> bool:
        try:
            return (await self.http.get("/v2/health/live")).status_code == httpx.codes.OK
        except httpx.TransportError:
            return False

    async def failed_models(self, wanted: Iterable[str]) -> Mapping[str, str]:
        """Those that did not load, each with Triton's reason; of all models where none is wanted by
        name. Raises TritonStartError."""
        try:
            index = (await self.http.post("/v2/repository/index", json={})).json()
        except httpx.TransportError as gone:
            raise TritonStartError("Triton went away right after it began to listen") from gone
        named = set(wanted)
        failed = {
            model["name"]: model.get("reason", "not loaded")
            for model in index
            if model.get("state") != "READY" and (not named or model["name"] in named)
        }
        return MappingProxyType(failed)

    async def replaced(self, model: str, timeout_s: float) -> bool:
        """Whether the model was loaded anew, in the place of the one that serves: its files have
        not changed, and Triton only loads what differs, so its config says that it does."""
        try:
            config = (await self.http.get(f"/v2/models/{model}/config")).json()
            parameters = {
                **config["parameters"],
                _REVIVED: {"string_value": ambient.random_hex(16)},
            }
            override = json.dumps({**config, "parameters": parameters})
            answer = await self.http.post(
                f"/v2/repository/models/{model}/load",
                json={"parameters": {"config": override}},
                timeout=timeout_s,
            )
        except (httpx.TransportError, ValueError, KeyError, TypeError):
            return False
        return answer.status_code == httpx.codes.OK

    async def providers(self, known: tuple[Provided, ...]) -> tuple[Provided, ...]:
        """What its models run on, of those that say it. Logs those that are not `known`."""
        try:
            answer = await self.http.get(self._metrics)
        except httpx.TransportError:
            return known  # its metrics are no reason to doubt the server; they may come again
        current = providers.read(answer.text)
        for one in (p for p in current if p not in set(known)):
            in_vain = one.provider == providers.ON_CPU and has_gpu()
            logger.log(
                logging.WARNING if in_vain else logging.INFO,
                "%s %s runs %s on %s, %d threads%s",
                one.model, one.version, one.graph, one.provider, one.threads,
                ", though there is a GPU: spillway doctor says what is missing" if in_vain else "",
            )  # fmt: skip
        return current
