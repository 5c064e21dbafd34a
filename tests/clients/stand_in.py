"""A stand-in for the whole gateway, to run these tests on the OpenAI front and connector alone:
`pytest -p stand_in` with this folder on the Python path. The calls go to the simulated cloud, and
so do those of the Open Inference Protocol, directly. A fixture `gateway` of a conftest wins.
"""

from __future__ import annotations

import asyncio
import socket
import threading
import time
import uuid
from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import pytest
import uvicorn

from gateway.backends.openai import OpenAiConnector, origin_of
from gateway.backends.wire import Wire
from gateway.callers import Callers
from gateway.catalog import Catalog, CatalogModel
from gateway.config import LimitSettings
from gateway.demo.cloud.process import SimulatedCloud
from gateway.fronts import Services, openai
from gateway.fronts.http import Front, build_app
from gateway.types import (
    InferenceReply,
    InferenceRequest,
    Placement,
    Sensitivity,
    ServedModel,
    Zone,
)

MODELS = Path(__file__).parents[2] / "models"
PLACEMENT = Placement(Zone.CLOUD, "simulated", "stand_in", 1, Sensitivity.CLEAR, 0.0)


@dataclass(frozen=True)
class StandIn:
    http_url: str
    grpc_target: str


class NoInspection:
    def of_server(self) -> NoReturn:
        raise NotImplementedError

    def of_model(self, model: str) -> NoReturn:
        raise NotImplementedError

    def live(self) -> bool:
        return True

    def ready(self) -> bool:
        return True

    def model_ready(self, model: str) -> bool:
        return True


async def _serve(told: Future[StandIn], leave: threading.Event) -> None:
    async with SimulatedCloud.start(MODELS, round_trip_median_ms=2.0) as cloud:
        connector = OpenAiConnector(Wire(origin_of(cloud.http_url), connect_timeout_s=2.0))

        async def handle(request: InferenceRequest) -> InferenceReply:
            frames = await connector.open(request, ServedModel(request.model))
            return InferenceReply(PLACEMENT, frames)

        models = {
            "scribe": CatalogModel("scribe", "generate", ("simulated",)),
            "minilm": CatalogModel("minilm", "embeddings", ("simulated",)),
            "simple": CatalogModel("simple", "infer", ("simulated",)),
        }
        services = Services(
            handle=handle,
            callers=Callers({}),
            catalog=Catalog(models),
            inspection=NoInspection(),
            limits=LimitSettings(),
            new_id=lambda: str(uuid.uuid4()),
            clock=time.monotonic,
        )
        app = build_app(services, [Front("", openai.routes(services), openai.error_response)])
        listening = socket.create_server(("127.0.0.1", 0))
        config = uvicorn.Config(app, http="httptools", ws="none", lifespan="off", log_config=None)
        server = uvicorn.Server(config)
        task = asyncio.create_task(server._serve([listening]))
        told.set_result(
            StandIn(f"http://127.0.0.1:{listening.getsockname()[1]}", cloud.grpc_target)
        )
        await asyncio.to_thread(leave.wait)
        server.should_exit = True
        await task
        await connector.aclose()


@pytest.fixture(scope="session")
def gateway() -> Iterator[StandIn]:
    told: Future[StandIn] = Future()
    leave = threading.Event()
    thread = threading.Thread(target=lambda: asyncio.run(_serve(told, leave)))
    thread.start()
    try:
        yield told.result(40)
    finally:
        leave.set()
        thread.join()
