"""What a call says of itself in metrics: in OpenTelemetry's names for generative AI (semantic
conventions 1.37, in their Prometheus form), against its budget, and by how it ended.

The gateway is the client of an endpoint, and the server of its caller; the provider is the endpoint
by its name in the settings. Calls with tensors are no operation that those conventions know.

Series are found by all their labels at once, the first time by each metric's own: `Measures` keeps
them bound, and forgets them all when they have become too many. The caps of labels are the
metrics' own (`series`).
"""

from __future__ import annotations

from typing import Final

from gateway.accounting.metrics import Metrics
from gateway.accounting.series import Counter, Histogram
from gateway.types import Attempt, InferenceRequest, Operation, Outcome

OPERATIONS = {
    Operation.CHAT: "chat",
    Operation.COMPLETIONS: "text_completion",
    Operation.EMBEDDINGS: "embeddings",
    Operation.RESPONSES: "chat",  # the conventions have no name of their own for it
}
_BY_NAME: Final = {operation.value: name for operation, name in OPERATIONS.items()}
_MOST_BOUND: Final = 16_384


class _OfAttempts:
    """The series of attempts that have all labels in common."""

    __slots__ = ("_metrics", "_of_tokens", "_tokens", "attempts", "client_duration", "spend_usd")

    def __init__(self, metrics: Metrics, labels: tuple[str, str, str, str, str]) -> None:
        endpoint, zone, result, operation, model = labels
        self.attempts: Counter = metrics.attempts.labels(endpoint, zone, result)
        self.spend_usd: Counter | None = None  # there is no series before anything was spent
        self.client_duration: Histogram | None = None
        if (name := _BY_NAME.get(operation)) is not None:
            error = "" if result == "served" else result
            self.client_duration = metrics.gen_ai_client_duration.labels(
                name, endpoint, model, error
            )
        self._metrics = metrics
        self._of_tokens = (name or "", endpoint, model)
        self._tokens: dict[str, Histogram] = {}  # by direction

    def tokens(self, direction: str, attempt: Attempt) -> Histogram:
        """There is no series before any were counted."""
        found = self._tokens.get(direction)
        if found is None:
            labels = (*self._of_tokens, direction, attempt.zone.value)
            found = self._tokens[direction] = self._metrics.gen_ai_tokens.labels(*labels)
        return found


class _OfCalls:
    """The series of calls that have all labels in common, but for their tenants."""

    __slots__ = ("budget_used", "call_seconds", "calls", "server_duration")

    def __init__(self, metrics: Metrics, labels: tuple[str, str, str, str, str, str, str]) -> None:
        protocol, operation, model, sensitivity, zone, outcome, reason = labels
        self.calls: Counter = metrics.calls.labels(
            protocol, model, sensitivity, zone, outcome, reason
        )
        self.call_seconds: Histogram = metrics.call_seconds.labels(protocol, zone)
        self.budget_used: Histogram | None = None
        if outcome != Outcome.CANCELLED.value:
            self.budget_used = metrics.budget_used.labels(model, zone)
        self.server_duration: Histogram | None = None
        if (name := _BY_NAME.get(operation)) is not None:
            error = "" if outcome == Outcome.SERVED.value else outcome
            self.server_duration = metrics.gen_ai_server_duration.labels(name, model, error)


class Measures:
    def __init__(self, metrics: Metrics) -> None:
        self.metrics = metrics
        self._of_attempts: dict[tuple[str, ...], _OfAttempts] = {}
        self._of_calls: dict[tuple[str, ...], _OfCalls] = {}

    def attempted(self, request: InferenceRequest, attempt: Attempt) -> None:
        labels = (
            attempt.endpoint, attempt.zone._value_, attempt.result,
            request.payload.operation._value_, request.model,
        )  # fmt: skip
        found = self._of_attempts.get(labels)
        if found is None:
            if len(self._of_attempts) >= _MOST_BOUND:
                self._of_attempts.clear()
            found = self._of_attempts[labels] = _OfAttempts(self.metrics, labels)
        found.attempts.inc()
        if attempt.price_usd:
            if found.spend_usd is None:
                found.spend_usd = self.metrics.spend_usd.labels(labels[0], labels[1])
            found.spend_usd.inc(attempt.price_usd)
        if found.client_duration is not None:
            found.client_duration.observe(attempt.took_s)
            if (usage := attempt.usage) is not None:
                found.tokens("input", attempt).observe(usage.input_tokens)
                if request.operation is not Operation.EMBEDDINGS:
                    found.tokens("output", attempt).observe(usage.output_tokens)

    def begun(self, request: InferenceRequest, endpoint: str, now_s: float) -> None:
        """The first frame of a streamed answer is there."""
        if (operation := OPERATIONS.get(request.operation)) is not None:
            self.metrics.gen_ai_first_token.labels(operation, endpoint, request.model).observe(
                now_s - request.received_s
            )

    def streamed(self, request: InferenceRequest, served: Attempt, took_s: float) -> None:
        """A streamed answer has ended well, so long after its first frame. Of one whose tokens
        nobody counted nothing is told: an event may hold several of them."""
        operation = OPERATIONS.get(request.operation)
        if operation is None or served.usage is None or served.usage.output_tokens < 2:
            return
        self.metrics.gen_ai_each_token.labels(operation, served.endpoint, request.model).observe(
            took_s / (served.usage.output_tokens - 1)
        )

    def ended(
        self, request: InferenceRequest, sensitivity: str, zone: str, outcome: str, reason: str,
        took_s: float,
    ) -> None:  # fmt: skip
        labels = (
            request.protocol._value_, request.payload.operation._value_, request.model,
            sensitivity, zone, outcome, reason,
        )  # fmt: skip
        found = self._of_calls.get(labels)
        if found is None:
            if len(self._of_calls) >= _MOST_BOUND:
                self._of_calls.clear()
            found = self._of_calls[labels] = _OfCalls(self.metrics, labels)
        found.calls.inc()
        found.call_seconds.observe(took_s)
        self.metrics.tenant_calls.labels(request.tenant, zone, outcome).inc()
        if found.budget_used is not None:
            budget_s = request.deadline.at_s - request.received_s
            if budget_s > 0:
                found.budget_used.observe(took_s / budget_s)
        if found.server_duration is not None:
            found.server_duration.observe(took_s)
