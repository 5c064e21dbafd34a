"""Values that cross a stage boundary. No behaviour beyond their own invariants, no I/O."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from gateway.core.deadline import Deadline
from gateway.core.held_bytes import AnswerShare
from gateway.core.operations.media.files import UploadedFile
from gateway.core.operations.spec import OperationSpec, Translation
from gateway.core.operations.tensors import INFER
from gateway.core.structs import value, weakly_referenced_value
from gateway.core.trace_context import UNTRACED, Untraced
from gateway.core.zone import CLOUD as CLOUD
from gateway.core.zone import ONPREM as ONPREM
from gateway.core.zone import Zone as Zone
from gateway.core.zone import is_onprem as is_onprem


class WordEnum(enum.Enum):
    """Of a closed set. `word` is a member's value: `Enum` hashes and reads it in Python."""

    __hash__ = object.__hash__
    word: str

    def __init__(self, word: str) -> None:
        self.word = word


class Sensitivity(WordEnum):
    CLEAR = "clear"
    RESTRICTED = "restricted"  # also: not scanned, not scannable, scan failed or late


CLEAR: Final = Sensitivity.CLEAR  # to look a member up takes longer than to compare with it


EVERYWHERE = frozenset({ONPREM, CLOUD})  # without the settings' own zones
ONPREM_ONLY, CLOUD_ONLY = frozenset({ONPREM}), frozenset({CLOUD})
NOWHERE: frozenset[Zone] = frozenset()


class Outcome(WordEnum):
    """How a call ended: the only values that the `outcome` metric label can take."""

    SERVED = "served"
    REJECTED = "rejected"  # the caller's fault: 4xx
    SHED = "shed"  # no room: 429/503
    EXPIRED = "expired"  # its deadline passed: 504
    FAILED = "failed"  # every attempt failed: 502
    CANCELLED = "cancelled"  # the caller left


class WireProtocol(WordEnum):
    KSERVE_REST = "kserve-rest"
    KSERVE_GRPC = "kserve-grpc"
    OPENAI = "openai"
    ANTHROPIC = "anthropic"
    GEMINI = "gemini"
    BEDROCK = "bedrock"
    COHERE = "cohere"


Parameter = bool | int | float | str  # of a request or tensor of the Open Inference Protocol

JsonDocument = dict[str, Any]  # strictly parsed: unique keys, finite numbers, valid Unicode


@value
class Tensor:
    """One input or output tensor. `data` is its raw little-endian form of the binary tensor
    extension: row-major elements; BYTES elements each behind a 4-byte little-endian length."""

    name: str
    datatype: str
    shape: tuple[int, ...]
    data: bytes = field(repr=False)
    parameters: Mapping[str, Parameter] = field(default_factory=dict, repr=False)


@value
class RequestedOutput:
    name: str
    parameters: Mapping[str, Parameter] = field(default_factory=dict, repr=False)


@value
class TensorCall:
    """One Open Inference Protocol inference, freed from its wire form."""

    inputs: tuple[Tensor, ...] = field(repr=False)
    outputs: tuple[RequestedOutput, ...] = field(default=(), repr=False)
    parameters: Mapping[str, Parameter] = field(default_factory=dict, repr=False)
    id: str = field(default="", repr=False)  # the caller's own id: free text
    version: str = ""  # decimal digits, or empty for the server's choice
    streamed: bool = False  # came by ModelStreamInfer: any number of responses

    @property
    def operation(self) -> OperationSpec:
        return INFER

    @property
    def sequence(self) -> int | str | None:
        """The correlation id of a stateful sequence, or None."""
        sequence = self.parameters.get("sequence_id")
        return sequence if isinstance(sequence, int | str) and sequence not in (0, "") else None


AT_ONCE_BYTES = 64 * 1024  # to read or write more JSON than this leaves the event loop


@weakly_referenced_value
class DocumentCall:
    """One OpenAI call: the strictly parsed body, serialised again by whoever sends it on."""

    operation: OperationSpec
    document: JsonDocument = field(repr=False)
    streamed: bool = False
    size: int = field(default=0, compare=False)  # bytes that it came as, if it is large
    inexact: bool = False  # of token ids that do not say the text as it was written
    translation: Translation | None = None  # where its caller speaks another API
    files: tuple[UploadedFile, ...] = field(default=(), repr=False)
    json_bytes: int = field(default=0, init=False, compare=False)
    """Of `document` as JSON without spaces, where its reader counts them; 0 in changed copies."""


Payload = TensorCall | DocumentCall


@dataclass(frozen=True, slots=True)
class Tightening:
    """What a tenant or a key adds to what restricts its calls. Nothing in it can loosen."""

    profile: str | None = None  # its entity types, beside the gateway's own
    types: frozenset[str] = frozenset()  # more entity types
    threshold: float = 1.0  # findings count from the lower of this and the gateway's on
    answers_masked: bool = field(default=False, compare=False)  # what restricts in them

    def __or__(self, other: Tightening) -> Tightening:
        if other == self and other.answers_masked == self.answers_masked:
            return self
        return Tightening(
            profile=max(self.profile, other.profile, key=lambda p: STRICTNESS[p]),
            types=self.types | other.types,
            threshold=min(self.threshold, other.threshold),
            answers_masked=self.answers_masked or other.answers_masked,
        )


STRICTNESS = {None: 0, "patterns": 1, "balanced": 2, "strict": 3}
NOT_TIGHTENED = Tightening()  # of whoever adds nothing: compared by identity


@dataclass(frozen=True, slots=True)
class Quota:
    """What one key, or all keys of one tenant together, may use; None: no limit."""

    holder: str  # whose, e.g. 'key billing'; no two of a gateway are the same
    kind: str  # 'key' or 'tenant'
    tenant: str
    requests_per_minute: float | None = None
    tokens_per_minute: float | None = None
    concurrent: int | None = None


@value
class InferenceRequest:
    """One call, independent of how it arrived."""

    id: str
    protocol: WireProtocol
    tenant: str
    model: str  # a name of the catalog, matched and never interpolated
    payload: Payload = field(repr=False)
    deadline: Deadline
    priority: int = 0  # smaller is more urgent; 0 is the default
    zones: frozenset[Zone] = EVERYWHERE  # what the caller and its key allow
    tightening: Tightening = NOT_TIGHTENED  # what its tenant and its key add to what restricts
    labelled: bool = False  # its caller says that it is restricted
    pseudonymise: bool = False  # its key and its model allow surrogates in the place of findings
    quotas: tuple[Quota, ...] = ()  # of its key and its tenant
    explained: bool = False  # only asked about, never served: no later call is tainted by it
    traceparent: str = ""
    tracestate: str = field(default="", repr=False)  # the caller's; for on-prem servers alone
    trace: Untraced = field(default=UNTRACED, repr=False, compare=False)
    received_s: float = 0.0  # monotonic
    recorded_id: str = ""  # in the place of an id that its caller gave; empty: `id` itself
    recorded_trace: str = ""  # and of a trace id
    surrogates: bool = False  # they stand in it in the place of what was found in another call
    held: AnswerShare | None = field(default=None, repr=False, compare=False)
    """What is held of its answer, counted; its front closes it. None: nobody counts."""
    caller: str = ""  # the name of its caller's credential; empty: the caller has no credential
    labels: frozenset[str] = frozenset()  # classes that its caller, key, tenant or model says

    @property
    def record_id(self) -> str:
        """Under which it is on record, in the ledger and in logs."""
        return self.recorded_id or self.id

    @property
    def record_trace(self) -> str:
        return self.recorded_trace or self.traceparent[3:35]

    @property
    def operation(self) -> OperationSpec:
        return self.payload.operation

    @property
    def streamed(self) -> bool:
        return self.payload.streamed


@value
class Finding:
    """A span of personal data in one scanned text. Offsets are characters."""

    type: str
    start: int
    end: int
    score: float


PUBLIC_MODEL = "public_model"  # why a call is clear unread: the operator's word about its model


@value
class Classification:
    """The verdict on one call. It belongs to that call alone (`request_id`)."""

    request_id: str
    sensitivity: Sensitivity
    reason: str  # a reason code: 'clear', 'entities', 'unscannable', 'late', 'failed', ...
    entities: Mapping[str, int] = field(default_factory=dict)  # type -> count, never the text
    classify_s: float = 0.0
    complete: bool = False  # all was looked for that the policy names; else not yet people's names
    pseudonymised: Mapping[str, int] = field(default_factory=dict)  # type -> values replaced
    data_class: str = ""  # of the operator's; empty: its sensitivity is its class
    admitted: frozenset[Zone] = CLOUD_ONLY  # zones outside the premises that its class admits
    restricted: bool = field(init=False, repr=False, compare=False)
    stays: bool = field(init=False, repr=False, compare=False)  # no zone outside is admitted

    def __post_init__(self) -> None:
        self.restricted = self.sensitivity is not CLEAR  # type: ignore[misc]
        if self.restricted and not self.data_class:  # guard: M7.restricted-class
            self.admitted = NOWHERE  # type: ignore[misc]
        self.stays = not self.admitted  # type: ignore[misc]

    def admits(self, zone: Zone) -> bool:
        return zone.onprem or zone in self.admitted


@dataclass(frozen=True, slots=True)
class ServedModel:
    """How one endpoint serves a model of the catalog."""

    model: str  # the name at that endpoint
    version: str = ""  # the one that it serves, in decimal digits; empty: whichever is asked for
    versions: Mapping[str, float] = field(default_factory=dict)  # of a split, by weight
    substitute: bool = False  # another model than the one asked for, as the config says
    price_usd: float = 0.0  # of one call
    price_usd_per_1k_tokens: float = 0.0
    price_usd_per_1k_input_tokens: float | None = None
    price_usd_per_1k_output_tokens: float | None = None
    price_usd_per_1k_cached_tokens: float | None = None
    price_usd_per_1k_cache_write_tokens: float | None = None
    assumed_usd_per_1k_tokens: float = 0.0  # where no price is stated; counted, not ranked by
    egress_usd_per_gb: float = 0.0
    gpu_usd_per_hour: float = 0.0  # of the whole server, while it has calls
    lacks: frozenset[str] = frozenset()  # capabilities of its kind that it has not
    max_tokens: int = 32_000  # of an answer whose call states no limit, where one must be stated
    refuses: Mapping[str, tuple[Any, ...]] = field(default_factory=dict, repr=False)
    """Fields of calls that it takes with these values only, or with none."""

    def grants(self, version: str) -> bool:
        """Whether a call may ask for this version (decimal digits, or empty for any)."""
        return not version or not self.version or int(version) == int(self.version)


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One place that can serve models; exactly one zone."""

    name: str
    zone: Zone
    kind: str  # the name of an `EndpointKind`
    models: Mapping[str, ServedModel] = field(default_factory=dict, repr=False)
    operations: frozenset[str] | None = None  # of those of its kind; None: all


_FURTHER: Final = "#"  # no name of the settings has it


def place_name(endpoint: str, model: str) -> str:
    """Of the endpoint as it serves a name of the catalog by one more model of its own."""
    return f"{endpoint}{_FURTHER}{model}"


def endpoint_name(place: str) -> str:
    """The endpoint of the settings that a place is at."""
    return place.partition(_FURTHER)[0]


@value
class EndpointSnapshot:
    """What routing may know of an endpoint for one model, as one immutable snapshot."""

    endpoint: Endpoint
    served: ServedModel
    available: bool
    unavailable_why: str = ""
    predicted_s: float = 0.0  # from now to the whole answer, were the call placed here now
    p50_s: float = 0.0  # median service time alone
    waiting: int = 0  # calls in the gateway's queue
    in_flight: int = 0
    batch: int = 1  # calls that the server executes at once
    room: bool = True  # the queue takes another call
    cold: bool = False  # not observed lately: the figures prove nothing
    slow: bool = False  # many times slower than usual: for calls with no other place
    back_in_s: float | None = None  # of one that is out: when it may be back, if anybody knows
    stale: bool = False  # the server's own statistics are old or missing; only ours count
    price_usd: float = 0.0  # expected price of this call here


@value
class Decision:
    """Where a call may go, best first, and why. `zones` can only shrink afterwards."""

    attempts: tuple[Endpoint, ...]
    reason: str  # a reason code, e.g. 'onprem_room', 'restricted', 'spill_deadline'
    zones: frozenset[Zone]
    vetoes: tuple[tuple[str, str], ...] = ()  # (endpoint, why)
    latency_critical: bool = False
    tries: int = 2  # at most so many endpoints are sent the call
    predicted_s: Mapping[str, float] = field(default_factory=dict)  # endpoint -> seconds


@value
class Usage:
    """Tokens of one call. Those that a cache had or was given are input, `reasoning` is output."""

    input_tokens: int
    output_tokens: int
    cached_tokens: int = 0
    reasoning_tokens: int = 0
    cache_write_tokens: int = 0


@value
class Cost:
    """Of one attempt, exact: whole nano-dollars (1e-9 USD)."""

    nano_usd: int = 0
    usage: Usage = Usage(0, 0)
    moved_bytes: int = 0  # to the cloud and back, where that costs
    gpu_ns: int = 0  # of a server's time, which it may have shared with others
    cloud_nano_usd: int | None = None  # of an on-prem answer, had it come from the cloud
    estimated: bool = False  # the endpoint has not said how many tokens it counted


@value
class Attempt:
    """One try at one endpoint, as the decision record keeps it."""

    endpoint: str
    zone: Zone
    zones: frozenset[Zone]  # what was allowed when it started (BEHAVIOURS M2)
    result: str  # 'served' or a reason code
    queued_s: float = 0.0
    took_s: float = 0.0
    price_usd: float = 0.0
    cost: Cost = Cost()
    usage: Usage | None = None  # as the endpoint counted it; never an estimate
    sent_as: str = ""  # in the cloud: the id under which it was sent
