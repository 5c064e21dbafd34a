"""The HTTP port: uvicorn's protocol over sockets of ours, recording before it parses."""

import asyncio
from typing import Any

import uvicorn
from starlette.types import ASGIApp, Scope
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from gateway.demo.cloud.bytelog import ByteLog, Record
from gateway.demo.cloud.sockets import LoopbackPort, reset


class RecordingProtocol(HttpToolsProtocol):
    def __init__(self, config: uvicorn.Config, server_state: ServerState, log: ByteLog) -> None:
        super().__init__(config, server_state, {"connection": self})
        self._log = log
        self._number = log.next_connection()

    def data_received(self, data: bytes) -> None:
        self._log.append(Record("http", self._number, "bytes", data))
        super().data_received(data)

    def cut(self) -> None:
        self.transport.close()

    def reset(self) -> None:
        reset(self.transport)


def scope_connection(scope: Scope) -> RecordingProtocol:
    connection = scope["state"]["connection"]
    assert isinstance(connection, RecordingProtocol)
    return connection


class HttpDoor:
    def __init__(self, app: ASGIApp, log: ByteLog | None, port: int) -> None:
        self._config: Any = uvicorn.Config(
            app,
            http="httptools",
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            proxy_headers=False,
        )
        self._config.load()
        self._state = ServerState()
        self._log = log
        self._port = LoopbackPort(port)
        self._server: asyncio.Server | None = None

    @property
    def port(self) -> int:
        return self._port.number

    async def open(self) -> None:
        if self._server is None:
            self._server = await asyncio.get_running_loop().create_server(
                self._connection,
                sock=self._port.listening_socket(),
                backlog=1024,
            )

    def _connection(self) -> HttpToolsProtocol:
        if self._log is None:
            return HttpToolsProtocol(self._config, self._state, {})
        return RecordingProtocol(self._config, self._state, self._log)

    def refuse(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None
        for connection in list(self._state.connections):
            reset(connection.transport)

    def close(self) -> None:
        self.refuse()
        self._port.close()
