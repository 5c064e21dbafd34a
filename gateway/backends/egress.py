"""The one door out of the premises."""

from __future__ import annotations

from gateway.backends import Cleared, Connector
from gateway.errors import EgressForbidden
from gateway.types import ReplyStream, ServedModel


class CloudDoor:
    """The way to a cloud endpoint. A call without its clearance does not pass, whoever asks."""

    def __init__(self, connector: Connector) -> None:
        self.__connector = connector  # name-mangled: there is no other way to it

    async def infer(self, cleared: Cleared, served: ServedModel) -> ReplyStream:
        if type(cleared) is not Cleared:
            raise EgressForbidden("no clearance")
        return await self.__connector.open(cleared.request, served)
