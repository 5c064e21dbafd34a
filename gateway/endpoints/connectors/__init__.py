"""What the gateway needs from anything that runs a model, and the two doors to it.

A kind (`triton`, `kserve`, `openai`) is written once, as a `Connector`. The composition root wraps
each in the door of its zone, and nothing else holds the connector: `OnPremDoor` takes a request,
`CloudDoor` (in `egress`) takes nothing but a `Cleared` one.
"""

from __future__ import annotations

from collections.abc import Awaitable
from dataclasses import InitVar, dataclass
from typing import Protocol, final, runtime_checkable

from gateway.core import ambient
from gateway.core.errors import EgressForbidden
from gateway.core.reply import ReplyStream, RestBody
from gateway.core.types import Classification, Decision, InferenceRequest, ServedModel, Zone
from gateway.endpoints.batch_rows.rows import JointLimit
from gateway.endpoints.connectors.version_split import open_split

_set = object.__setattr__  # of what nobody can change afterwards


class Probed(Protocol):
    """What may be held of a connector without a door: nothing that could send a call."""

    async def ready(self) -> bool:
        """One health probe. It may be wrong: only an inference proves that a server infers."""
        ...

    async def aclose(self) -> None: ...


class Connector(Probed, Protocol):
    """Speaks one protocol to one endpoint."""

    def open(self, request: InferenceRequest, served: ServedModel) -> Awaitable[ReplyStream]:
        """Send the call on. The stream's first frame may still be to come; closing the stream (or
        cancelling this call) cancels the call upstream. Whoever awaits it bounds the wait by the
        call's deadline. Raises `UpstreamError` by its class."""
        ...


@runtime_checkable
class Inspector(Protocol):
    """The read-only side of an Open Inference Protocol server, answered as it wrote it."""

    async def rest(self, path: str, timeout_s: float) -> RestBody:
        """GET a path built from catalog names, e.g. `/v2/models/simple/config`."""
        ...

    async def grpc(self, method: str, message: bytes, timeout_s: float) -> bytes:
        """Call a unary method of GRPCInferenceService with a serialised message."""
        ...


@runtime_checkable
class JoinsCalls(Protocol):
    """Sends calls as one request, of the models that have a limit: whoever tries rows sets it."""

    joint_limits: dict[str, JointLimit]


@final
@dataclass(frozen=True, slots=True, init=False)
class Cleared:
    """A call that may go to one zone outside the premises. Cloud backends accept nothing else."""

    zone: Zone
    request: InferenceRequest
    classification: InitVar[Classification]
    decision: InitVar[Decision]
    sent_as: str
    """The id that the cloud sees. It leads back to the call in the audit alone."""

    def __init__(
        self,
        zone: Zone,
        request: InferenceRequest,
        classification: Classification,
        decision: Decision,
        sent_as: str | None = None,
    ) -> None:
        # guard: M1.cleared
        # guard: M3.verdict minus 1
        # guard: M3.decided-zones minus 4
        if (
            zone not in classification.admitted
            or not classification.complete
            or classification.request_id != request.id
            or zone not in decision.zones
            or zone not in request.zones
        ):
            raise EgressForbidden(request.id)
        _set(self, "zone", zone)
        _set(self, "request", request)
        _set(self, "sent_as", ambient.new_id() if sent_as is None else sent_as)


class OnPremBackend(Protocol):
    def infer(self, request: InferenceRequest, served: ServedModel) -> Awaitable[ReplyStream]: ...


class CloudBackend(Protocol):
    def infer(self, cleared: Cleared, served: ServedModel) -> Awaitable[ReplyStream]: ...


class OnPremDoor:
    """The way to an on-prem endpoint."""

    def __init__(self, connector: Connector) -> None:
        self._connector = connector

    def infer(self, request: InferenceRequest, served: ServedModel) -> Awaitable[ReplyStream]:
        if served.versions:
            return open_split(self._connector.open, request, served)
        return self._connector.open(request, served)
