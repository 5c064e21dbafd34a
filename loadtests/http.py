"""A light HTTP/1.1 client: kept connections, as many as calls are open, and nothing implicit.

For load generators, whose own cost must not be what is measured: about a tenth of httpx's. It
reads answers with a Content-Length, which is what an inference call is answered with.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from types import TracebackType
from urllib.parse import urlsplit

_JSON = {"content-type": "application/json"}
_Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@dataclass(frozen=True, slots=True)
class Answered:
    status: int
    headers: Mapping[str, str]  # names in lower case
    body: bytes


class Client:
    """Use as an async context manager."""

    def __init__(self, base_url: str) -> None:
        parts = urlsplit(base_url)
        if parts.scheme != "http" or not parts.hostname or not parts.port:
            raise ValueError(f"{base_url}: must be http://host:port")
        self._host, self._port = parts.hostname, parts.port
        self._idle: list[_Connection] = []

    async def __aenter__(self) -> Client:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        while self._idle:
            self._idle.pop()[1].close()

    async def get(self, path: str) -> Answered:
        """Raises as `post` does."""
        return await self._ask("GET", path, b"", {})

    async def post(self, path: str, body: bytes, headers: Mapping[str, str]) -> Answered:
        """Raises OSError or asyncio.IncompleteReadError when the connection fails."""
        return await self._ask("POST", path, body, headers)

    async def stream(
        self, path: str, body: bytes, headers: Mapping[str, str]
    ) -> tuple[int, Mapping[str, str]]:
        """Reads an answer of any framing to its end, on a connection of its own. Raises OSError or
        asyncio.IncompleteReadError when there is no head."""
        reader, writer = await self._connect()
        try:
            closing = {**headers, "connection": "close"}
            writer.write(self._head("POST", path, body, closing) + body)
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
            while await reader.read(65_536):
                pass
        finally:
            writer.close()
        return int(head[0].split(" ", 2)[1]), dict(_header(line) for line in head[1:] if line)

    async def _ask(
        self, method: str, path: str, body: bytes, headers: Mapping[str, str]
    ) -> Answered:
        connection = self._idle.pop() if self._idle else await self._connect()
        reader, writer = connection
        try:
            writer.write(self._head(method, path, body, headers) + body)
            answered = await _read(reader)
        except BaseException:
            writer.close()
            raise
        if answered.headers.get("connection", "").lower() == "close":
            writer.close()
        else:
            self._idle.append(connection)
        return answered

    async def _connect(self) -> _Connection:
        return await asyncio.open_connection(self._host, self._port)

    def _head(self, method: str, path: str, body: bytes, headers: Mapping[str, str]) -> bytes:
        lines = [
            f"{method} {path} HTTP/1.1",
            f"host: {self._host}:{self._port}",
            f"content-length: {len(body)}",
            *(f"{name}: {value}" for name, value in ({**_JSON, **headers}).items()),
        ]
        return "\r\n".join((*lines, "", "")).encode("latin-1")


async def _read(reader: asyncio.StreamReader) -> Answered:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    status = int(head[0].split(" ", 2)[1])
    headers = dict(_header(line) for line in head[1:] if line)
    body = await reader.readexactly(int(headers["content-length"]))
    return Answered(status, headers, body)


def _header(line: str) -> tuple[str, str]:
    name, _, value = line.partition(":")
    return name.strip().lower(), value.strip()
