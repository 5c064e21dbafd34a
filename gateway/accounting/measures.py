"""What a call says of itself in metrics, beside the counters of `account`: in OpenTelemetry's names
for generative AI (semantic conventions 1.37, in their Prometheus form), and against its budget.

The gateway is the client of an endpoint, and the server of its caller; the provider is the endpoint
by its name in the settings. Calls with tensors are no operation that those conventions know.
"""

from __future__ import annotations

from gateway.accounting.metrics import Metrics
from gateway.types import Attempt, InferenceRequest, Operation, Outcome

OPERATIONS = {
    Operation.CHAT: "chat",
    Operation.COMPLETIONS: "text_completion",
    Operation.EMBEDDINGS: "embeddings",
    Operation.RESPONSES: "chat",  # the conventions have no name of their own for it
}


def attempted(metrics: Metrics, request: InferenceRequest, attempt: Attempt) -> None:
    if (operation := OPERATIONS.get(request.operation)) is not None:
        error = "" if attempt.result == "served" else attempt.result
        metrics.gen_ai_client_duration.labels(
            operation, attempt.endpoint, request.model, error
        ).observe(attempt.took_s)


def begun(metrics: Metrics, request: InferenceRequest, endpoint: str, now_s: float) -> None:
    """The first frame of a streamed answer is there."""
    if (operation := OPERATIONS.get(request.operation)) is not None:
        metrics.gen_ai_first_token.labels(operation, endpoint, request.model).observe(
            now_s - request.received_s
        )


def ended(
    metrics: Metrics, request: InferenceRequest, outcome: Outcome, zone: str, took_s: float
) -> None:
    metrics.tenant_calls.labels(request.tenant, zone, outcome.value).inc()
    budget_s = request.deadline.at_s - request.received_s
    if outcome is not Outcome.CANCELLED and budget_s > 0:
        metrics.budget_used.labels(request.model, zone).observe(took_s / budget_s)
    if (operation := OPERATIONS.get(request.operation)) is not None:
        error = "" if outcome is Outcome.SERVED else outcome.value
        metrics.gen_ai_server_duration.labels(operation, request.model, error).observe(took_s)
