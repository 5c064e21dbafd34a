"""What a call says of itself in metrics: in OpenTelemetry's names for generative AI (semantic
conventions 1.37, in their Prometheus form), against its budget, and by how it ended.

The gateway is the client of an endpoint, and the server of its caller; the provider is the endpoint
by its name in the settings. Calls with tensors are no operation that those conventions know.

A call only leaves what it has to say. It is counted with others that have all labels in common,
once there are some hundred, or when somebody looks at the metrics: to count a thousand observations
of a series at once costs little more than to count one.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter, itemgetter
from typing import Any, Final

from gateway.accounting.metrics import Metrics
from gateway.core.operations.registry import OPERATIONS
from gateway.core.operations.spec import OperationSpec
from gateway.core.types import Attempt, InferenceRequest, Outcome, Usage

AT_ONCE: Final = 256  # calls; a millisecond's work

Record = Mapping[str, Any]
"""Of a call, as the audit has it."""

Tried = tuple[Attempt, OperationSpec, str]
"""An attempt, and the operation and the model of its call."""

Ended = tuple[Record, Record, str, str, str, float, float]
"""A call: its record as it was sent, and that of its end (the same one where it was sent nowhere or
is told anew); where it was last tried, its outcome, the reason; its seconds; when it ended."""

_took_s: Final = attrgetter("took_s")
_price_usd: Final = attrgetter("price_usd")
_usage: Final[Callable[[Attempt], Usage | None]] = attrgetter("usage")
_input_tokens: Final = attrgetter("input_tokens")
_output_tokens: Final = attrgetter("output_tokens")
_call_labels: Final[Callable[[Record], tuple[str, str, str, str | None]]] = itemgetter(
    "protocol", "operation", "model", "sensitivity"
)
"""A call of a class between clear and restricted has that for its sensitivity."""
_tenant: Final = itemgetter("tenant")
_budget_s: Final = itemgetter("budget_s")
_classify_s: Final = itemgetter("classify_s")
_entities: Final[Callable[[Record], Mapping[str, int]]] = itemgetter("entities")
_pseudonymised: Final[Callable[[Record], Mapping[str, int]]] = itemgetter("pseudonymised")


def measures_for(metrics: Metrics) -> Measures:
    """One for all accounts with these metrics: those of older settings go on beside the newest."""
    gathering = metrics.registry.gathering
    if not isinstance(gathering, Measures):
        gathering = metrics.registry.gathering = Measures(metrics)
    return gathering


class Measures:
    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self.number = 0  # of the last call that began; ids may come twice
        self.sent: dict[
            int, Record
        ] = {}  # by number: calls that were sent somewhere, until they end
        self.tried: list[Tried] = []
        self.ended: list[Ended] = []
        """Who adds to it counts in time."""
        self.watch: Callable[[Sequence[Ended]], None] | None = None
        """Is given the calls that have ended, in their order."""
        self.watch_answers: Callable[[Record], None] | None = None
        """Is given the record of each answer with findings."""
        self._counted = 0  # calls

    def begun(self, request: InferenceRequest, endpoint: str, now_s: float) -> None:
        """The first frame of a streamed answer is there."""
        if operation := request.operation.metric:
            self._metrics.gen_ai_first_token.labels(operation, endpoint, request.model).observe(
                now_s - request.received_s
            )

    def streamed(self, request: InferenceRequest, served: Attempt, took_s: float) -> None:
        """A streamed answer has ended well, so long after its first frame. Of one whose tokens
        nobody counted nothing is told: an event may hold several of them."""
        operation = request.operation.metric
        if not operation or served.usage is None or served.usage.output_tokens < 2:
            return
        self._metrics.gen_ai_each_token.labels(operation, served.endpoint, request.model).observe(
            took_s / (served.usage.output_tokens - 1)
        )

    def count(self) -> None:
        """Whatever was left since the last time."""
        tried, self.tried = self.tried, []
        ended, self.ended = self.ended, []
        self._counted += len(ended)
        self._metrics.in_flight.set(self.number - self._counted)
        attempts: dict[tuple[Any, ...], list[Attempt]] = defaultdict(list)
        for attempt, operation, model in tried:
            key = attempt.endpoint, attempt.zone, attempt.result, operation, model
            attempts[key].append(attempt)
        for labels, some in attempts.items():
            self._count_attempts(labels, some)
        calls: dict[tuple[Any, ...], list[tuple[Record, float]]] = defaultdict(list)
        for record, _, zone, outcome, reason, took_s, _ in ended:
            labels_ = _call_labels(record)
            if "class" in record:
                labels_ = (*labels_[:3], record["class"])
            calls[(*labels_, zone, outcome, reason)].append((record, took_s))
        for labels, those in calls.items():
            self._count_calls(labels, *zip(*those, strict=True))
        if self.watch is not None and ended:
            self.watch(ended)

    def _count_attempts(self, labels: tuple[Any, ...], some: Sequence[Attempt]) -> None:
        """Of attempts that have all labels in common."""
        endpoint, zone, result, operation, model = labels
        metrics, zone, took_s = self._metrics, zone.name, list(map(_took_s, some))
        metrics.attempts.labels(endpoint, zone, result).inc(len(some))
        if spent_usd := sum(map(_price_usd, some)):
            metrics.spend_usd.labels(endpoint, zone).inc(spent_usd)
        if result == "served":
            metrics.attempt_seconds.labels(endpoint, model).observe_all(took_s)
        name = operation.metric
        if not name:
            return
        error = "" if result == "served" else result
        metrics.gen_ai_client_duration.labels(name, endpoint, model, error).observe_all(took_s)
        usages = list(filter(None, map(_usage, some)))
        if not usages:  # there is no series before any were counted
            return
        tokens = metrics.gen_ai_tokens.labels
        tokens(name, endpoint, model, "input", zone).observe_all(list(map(_input_tokens, usages)))
        if operation.writes:
            written = list(map(_output_tokens, usages))
            tokens(name, endpoint, model, "output", zone).observe_all(written)

    def _count_calls(
        self, labels: tuple[Any, ...], records: Sequence[Record], took_s: Sequence[float]
    ) -> None:
        protocol, operation, model, sensitivity, zone, outcome, reason = labels
        metrics = self._metrics
        metrics.calls.labels(protocol, model, sensitivity or "unknown", zone, outcome, reason).inc(
            len(records)
        )
        metrics.call_seconds.labels(protocol, zone).observe_all(took_s)
        for tenant, count in Counter(map(_tenant, records)).items():
            metrics.tenant_calls.labels(tenant, zone, outcome).inc(count)
        if outcome != Outcome.CANCELLED.value:
            budgets = zip(took_s, map(_budget_s, records), strict=True)
            metrics.budget_used.labels(model, zone).observe_all(
                [took / budget for took, budget in budgets if budget > 0]
            )
        if name := OPERATIONS[operation].metric:
            error = "" if outcome == Outcome.SERVED.value else outcome
            metrics.gen_ai_server_duration.labels(name, model, error).observe_all(took_s)
        if sensitivity is not None:
            metrics.classify_seconds.labels(sensitivity).observe_all(
                list(map(_classify_s, records))
            )
        for entities in filter(None, map(_entities, records)):
            for kind, count in entities.items():
                metrics.entities.labels(kind).inc(count)
        for entities in filter(None, map(_pseudonymised, records)):
            for kind, count in entities.items():
                metrics.pseudonymised.labels(kind).inc(count)
