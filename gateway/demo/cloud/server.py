"""Puts the ports together, and opens and closes them as the settings say."""

import dataclasses
from pathlib import Path

from gateway.demo.cloud import v2_grpc
from gateway.demo.cloud.bytelog import ByteLog
from gateway.demo.cloud.conditions import Conditions
from gateway.demo.cloud.control import CloudControl
from gateway.demo.cloud.grpc_door import GrpcDoor
from gateway.demo.cloud.http_app import http_app
from gateway.demo.cloud.http_door import HttpDoor
from gateway.demo.cloud.inference import Inference
from gateway.demo.cloud.models import ModelStore
from gateway.demo.cloud.settings import CloudSettings, OutageMode


@dataclasses.dataclass(frozen=True, slots=True)
class CloudPorts:
    http: int
    grpc: int
    control: int


class CloudServer:
    def __init__(
        self, models: Path, settings: CloudSettings, log: ByteLog, ports: CloudPorts
    ) -> None:
        self._conditions = Conditions(settings)
        self._models = ModelStore(models)
        self._http = HttpDoor(http_app(self._models, self._conditions), log, ports.http)
        self._grpc = GrpcDoor(self._conditions, log, ports.grpc)
        self._calls = v2_grpc.V2Grpc(
            Inference(self._models, self._conditions), self._conditions, log, self._grpc
        )
        control = CloudControl(self._conditions, log, self._follow).app()
        self._control = HttpDoor(control, None, ports.control)  # what is asked here is not logged
        self._inner_port = 0

    async def start(self) -> CloudPorts:
        await self._models.load_all()
        self._inner = v2_grpc.server(self._calls)
        self._inner_port = self._inner.add_insecure_port("127.0.0.1:0")
        await self._inner.start()
        await self._follow()
        await self._control.open()
        return CloudPorts(self._http.port, self._grpc.port, self._control.port)

    async def stop(self) -> None:
        self._http.close()
        self._grpc.close()
        await self._inner.stop(grace=None)
        self._models.close()
        self._control.close()

    async def _follow(self) -> None:
        """Bring the doors in line with the settings."""
        if self._conditions.settings.outage is OutageMode.REFUSE:
            self._http.refuse()
            self._grpc.refuse()
        else:
            await self._http.open()
            await self._grpc.open(self._inner_port)
