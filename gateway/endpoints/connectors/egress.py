"""The doors out of the premises, one for each zone there."""

from __future__ import annotations

from collections.abc import Awaitable

from gateway.core import ambient
from gateway.core.errors import EgressForbidden
from gateway.core.reply import ReplyStream
from gateway.core.types import InferenceRequest, ServedModel, Zone
from gateway.endpoints.connectors import Cleared, Connector


class CloudDoor:
    """The way to an endpoint outside the premises. A call without its clearance for this very zone
    does not pass, whoever asks."""

    def __init__(self, connector: Connector, zone: Zone) -> None:
        self._zone = zone
        self.__connector = connector  # name-mangled: there is no other way to it

    def infer(self, cleared: Cleared, served: ServedModel) -> Awaitable[ReplyStream]:
        """The caller chose the id and the trace, and nobody read them: either has room for a card
        number. So a cloud sees ids of one attempt, which lead back to nobody, and no tracestate."""
        if type(cleared) is not Cleared:
            raise EgressForbidden("no clearance")
        if cleared.zone is not self._zone:  # guard: M7.zone-door
            raise EgressForbidden(cleared.request.id)
        request, own = cleared.request, cleared.sent_as
        flags, digits = request.traceparent[53:55] or "01", own.replace("-", "")
        # guard: T3.tracestate -> sent = InferenceRequest(own, request.protocol, request.tenant,
        #   request.model, request.payload, request.deadline, request.priority, request.zones,
        #   request.tightening, request.labelled, request.pseudonymise, request.quotas,
        #   request.explained, f'00-{digits}-{ambient.random_hex(8)}-{flags}', request.tracestate,
        #   request.trace, request.received_s, held=request.held)
        sent = InferenceRequest(
            own,
            request.protocol,
            request.tenant,
            request.model,
            request.payload,
            request.deadline,
            request.priority,
            request.zones,
            request.tightening,
            request.labelled,
            request.pseudonymise,
            request.quotas,
            request.explained,
            f"00-{digits}-{ambient.random_hex(8)}-{flags}",
            "",  # in the place of the tracestate
            request.trace,
            request.received_s,
            held=request.held,
        )
        return self.__connector.open(sent, served)
