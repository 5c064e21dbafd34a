"""The gRPC port: a TCP relay before the gRPC server that records, slows down, cuts and resets."""

import asyncio
import contextlib

from gateway.demo.cloud.bytelog import ByteLog, Record
from gateway.demo.cloud.conditions import Conditions
from gateway.demo.cloud.settings import OutageMode
from gateway.demo.cloud.sockets import LoopbackPort, reset

_READ_BYTES = 64 * 1024
_DRIPS_PER_S = 10


class GrpcDoor:
    def __init__(self, conditions: Conditions, log: ByteLog, port: int) -> None:
        self._conditions = conditions
        self._log = log
        self._port = LoopbackPort(port)
        self._server: asyncio.Server | None = None
        self._callers: dict[int, asyncio.StreamWriter] = {}
        self._inner_port = 0

    @property
    def port(self) -> int:
        return self._port.number

    async def open(self, inner_port: int) -> None:
        self._inner_port = inner_port
        if self._server is None:
            self._server = await asyncio.start_server(
                self._relay, sock=self._port.listening_socket(), backlog=1024
            )

    def refuse(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None
        for caller in list(self._callers.values()):
            reset(caller.transport)

    def close(self) -> None:
        self.refuse()
        self._port.close()

    def cut(self, peer: str) -> None:
        caller = self._caller(peer)
        if caller is not None:
            caller.close()

    def reset(self, peer: str) -> None:
        caller = self._caller(peer)
        if caller is not None:
            reset(caller.transport)

    def _caller(self, peer: str) -> asyncio.StreamWriter | None:
        """The caller's connection, by the name (`ipv4:127.0.0.1:PORT`) that gRPC has for ours."""
        return self._callers.get(int(peer.rpartition(":")[2]))

    async def _relay(self, inward: asyncio.StreamReader, outward: asyncio.StreamWriter) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", self._inner_port)
        name = writer.get_extra_info("sockname")[1]
        self._callers[name] = outward
        try:
            async with asyncio.TaskGroup() as both:
                both.create_task(self._record(inward, writer))
                both.create_task(self._answer(reader, outward))
        except* (ConnectionError, asyncio.IncompleteReadError):
            pass  # one side left; both are closed below
        finally:
            del self._callers[name]
            for side in (writer, outward):
                side.close()
                with contextlib.suppress(ConnectionError):
                    await side.wait_closed()

    async def _record(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = self._log.next_connection()
        while data := await reader.read(_READ_BYTES):
            self._log.append(Record("grpc", connection, "bytes", data))
            writer.write(data)
            await writer.drain()
        writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(_READ_BYTES):
            settings = self._conditions.settings
            if settings.outage is OutageMode.DRIP:
                piece = max(1, int(settings.drip_bytes_per_s / _DRIPS_PER_S))
                for at in range(0, len(data), piece):
                    writer.write(data[at : at + piece])
                    await asyncio.sleep(1 / _DRIPS_PER_S)
            else:
                writer.write(data)
            await writer.drain()
        writer.close()
