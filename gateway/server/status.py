"""What is shown of the endpoints and the queues: /status, and the gauges of /metrics."""

from __future__ import annotations

from collections.abc import Mapping

from gateway.accounting.metrics import Metrics
from gateway.endpoints.state import EndpointState
from gateway.scheduling.queues import ModelQueues
from gateway.scheduling.rules.failsafe import Guarded


def report(states: Mapping[str, EndpointState]) -> list[dict[str, object]]:
    """For /status: every endpoint and lane, content-free."""
    return [
        {
            "endpoint": name,
            "zone": state.settings.zone.name,
            "kind": state.settings.kind,
            "up": state.up,
            "in_flight": state.in_flight,
            "statistics": "none" if state.statistics is None else state.statistics.state,
            "models": {
                model: {
                    "in_flight": model_state.in_flight,
                    "ejected": not model_state.breaker.closed,
                    "health": model_state.health.state,
                    "p50_s": None if model_state.times.cold else model_state.times.quantile_s(0.5),
                    "p95_s": None if model_state.times.cold else model_state.times.quantile_s(0.95),
                }
                for model, model_state in state.model_states.items()
            },
            "unbatched": {model: str(verdict) for model, verdict in state.unbatched.items()},
            "runs_on": {
                one.model: {"provider": one.provider, "graph": one.graph, "threads": one.threads}
                for one in state.provided()
            },
        }
        for name, state in states.items()
    ]


def forget(metrics: Metrics) -> None:
    """Endpoints and models may be gone: what is still there is published anew."""
    for gauge in (
        metrics.endpoint_available, metrics.statistics_stale, metrics.model_out,
        metrics.model_unbatched, metrics.gpu_turns,
        metrics.gpu_contention, metrics.queue_waiting, metrics.queue_safe_mode,
        metrics.queue_in_flight, metrics.batch_fixed,
        metrics.batch_per_work, metrics.batch_error,
    ):  # fmt: skip
        gauge.clear()


def publish(metrics: Metrics, states: Mapping[str, EndpointState], groups: ModelQueues) -> None:
    """Bring the gauges up to date; called when they are read."""
    onprem = [state for state in states.values() if state.settings.zone.onprem]
    metrics.onprem_up.set(any(state.up and not state.drained for state in onprem))
    for name, state in states.items():
        metrics.endpoint_available.labels(name, state.settings.zone.name).set(state.up)
        if state.statistics is not None:
            metrics.statistics_stale.labels(name).set(state.statistics.stale)
        for model, model_state in state.model_states.items():
            metrics.model_out.labels(name, model, "ejected").set(not model_state.breaker.closed)
            metrics.model_out.labels(name, model, "slow").set(model_state.health.state == "slow")

    metrics.model_unbatched.clear()  # another version may be batched
    for name, state in states.items():
        for model, verdict in state.unbatched.items():
            metrics.model_unbatched.labels(name, model, verdict.rows.value).set(1)
    metrics.model_provider.clear()  # a model that was loaded anew may run on another
    for name, state in states.items():
        for one in state.provided():
            metrics.model_provider.labels(name, one.model, one.provider).set(1)
    for name, gpu in groups.gpus.shared():
        metrics.gpu_turns.labels(name).set(gpu.turns)
        if gpu.contention.value is not None:
            metrics.gpu_contention.labels(name).set(gpu.contention.value)
    for (model, servers), group in groups:
        queue, scheduling = "+".join(servers), group.scheduling
        metrics.queue_waiting.labels(queue, model).set(group.waiting)
        replaced = isinstance(scheduling, Guarded) and scheduling.replaced
        metrics.queue_safe_mode.labels(queue, model).set(replaced)
        for name in servers:
            metrics.queue_in_flight.labels(name, model).set(groups.in_flight(model, name))
            batches = group.scheduling.servers.model(name)
            metrics.batch_fixed.labels(name, model).set(batches.fixed_s)
            metrics.batch_per_work.labels(name, model).set(batches.per_work_s)
            if batches.error.batches:
                metrics.batch_error.labels(name, model).set(batches.error.mean)
