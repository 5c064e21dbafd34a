"""The one door out of the premises."""

from __future__ import annotations

from collections.abc import Awaitable
from dataclasses import fields
from operator import attrgetter

from gateway import ambient
from gateway.backends import Cleared, Connector
from gateway.errors import EgressForbidden
from gateway.types import InferenceRequest, ReplyStream, ServedModel

_NAMES = [field.name for field in fields(InferenceRequest)]
_ALL = attrgetter(*_NAMES)
_ID, _TRACEPARENT, _TRACESTATE = map(_NAMES.index, ("id", "traceparent", "tracestate"))


class CloudDoor:
    """The way to a cloud endpoint. A call without its clearance does not pass, whoever asks."""

    def __init__(self, connector: Connector) -> None:
        self.__connector = connector  # name-mangled: there is no other way to it

    def infer(self, cleared: Cleared, served: ServedModel) -> Awaitable[ReplyStream]:
        """The caller chose the id and the trace, and nobody read them: either has room for a card
        number. So a cloud sees ids of one attempt, which lead back to nobody, and no tracestate."""
        if type(cleared) is not Cleared:
            raise EgressForbidden("no clearance")
        request, own = cleared.request, cleared.sent_as
        flags, digits = request.traceparent[53:55] or "01", own.replace("-", "")
        told = [*_ALL(request)]
        told[_ID] = own
        told[_TRACEPARENT] = f"00-{digits}-{ambient.random_hex(8)}-{flags}"
        told[_TRACESTATE] = ""
        return self.__connector.open(InferenceRequest(*told), served)
