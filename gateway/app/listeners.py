"""The listeners of the process: HTTP and gRPC, with the routes of the newest generation."""

from __future__ import annotations

import asyncio
import socket
from typing import TYPE_CHECKING

from gateway.accounting.ledger.reading import LedgerReader
from gateway.app.console import ProcessConsole
from gateway.app.generation import Core
from gateway.app.reports import ProcessReports
from gateway.protocols.http.connection import App
from gateway.protocols.http.cross_origin import CrossOrigin
from gateway.protocols.http.server import HttpServer
from gateway.protocols.listeners import listener_files
from gateway.protocols.tls import listening
from gateway.server import ops
from gateway.server.console.operators import Operators
from gateway.server.dialects.anthropic import front as anthropic
from gateway.server.dialects.bedrock import front as bedrock
from gateway.server.dialects.cohere import front as cohere
from gateway.server.dialects.gemini import front as gemini
from gateway.server.grpc.front import GrpcFront
from gateway.server.http import App as FrontsApp
from gateway.server.kserve import front as kserve
from gateway.server.kserve import predict
from gateway.server.openai import front as openai

if TYPE_CHECKING:
    from gateway.cluster.workers.siblings import SiblingWorker

UNWIND_S = 2.0  # for calls that are cut to end with their reason


class Listeners:
    def __init__(
        self, reports: ProcessReports, console: ProcessConsole, siblings: SiblingWorker | None
    ) -> None:
        self._reports = reports
        self._console = console
        self._siblings = siblings
        self._http: HttpServer | None = None
        self._grpc: GrpcFront | None = None
        self._operators = Operators({}, keys_configured=True)

    def app(self, core: Core) -> App:
        services, settings = core.services, core.settings
        operator = ops.OpsFront(
            services,
            self._reports.render_metrics,
            self._reports.status,
            core.pipeline.explain,
            LedgerReader.from_settings(settings).document,
            self._operators.knows,
            self._siblings,
        )
        app = FrontsApp(
            services,
            [
                anthropic.front(services),  # whose paths are below OpenAI's
                gemini.front(services),
                openai.front(services),
                openai.azure_front(services),
                bedrock.front(services),
                cohere.front(services),
                kserve.front(services),
                predict.front(services),
                *self._console.fronts(settings, self._operators),
                operator.front(),
            ],
        )
        cors = settings.listen.cors
        return CrossOrigin(app, cors) if cors.origins else app

    async def start(self, core: Core, http: socket.socket, grpc_port: int) -> int:
        """Take calls. Returns the port of gRPC, which may be 0 to ask for a free one."""
        self._follow(core)
        tls, shared = listener_files(core.settings), self._siblings is not None
        self._http = HttpServer(self.app(core), None if tls is None else listening(tls))
        self._grpc = GrpcFront(
            core.services, core.settings.listen.host, grpc_port, tls=tls, shared=shared
        )
        port = await self._grpc.start()
        await self._http.start([http])
        return port

    def serve(self, core: Core, app: App) -> None:
        """New calls come to this generation."""
        assert self._http is not None
        assert self._grpc is not None
        self._follow(core)
        self._http.serve(app)  # guard: O2.http-newest
        self._grpc.serve(core.services)

    def _follow(self, core: Core) -> None:
        settings = core.settings
        self._operators.follow(
            settings.console.operators, not settings.anybody, core.callers.issued_ids
        )

    def stop(self, drain_s: float) -> asyncio.Future[object]:
        """Accept nothing more. Done once gRPC's calls have ended, or had so long."""
        assert self._http is not None
        assert self._grpc is not None
        self._http.stop()
        return asyncio.create_task(self._grpc.drain(drain_s + UNWIND_S))

    async def stopped(self, grpc_drain: asyncio.Future[object]) -> None:
        assert self._http is not None
        await asyncio.gather(self._http.stopped(UNWIND_S), grpc_drain)
