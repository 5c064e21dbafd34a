"""What is shown of the endpoints and the queues: /status, and the gauges of /metrics."""

from __future__ import annotations

from collections.abc import Mapping

from gateway.accounting.metrics import Metrics
from gateway.core.types import Zone
from gateway.endpoints.state import EndpointState
from gateway.scheduling.queues import Groups
from gateway.scheduling.rules.failsafe import Guarded


def report(places: Mapping[str, EndpointState]) -> list[dict[str, object]]:
    """For /status: every endpoint and lane, content-free."""
    return [
        {
            "endpoint": name,
            "zone": place.settings.zone.value,
            "kind": place.settings.kind,
            "up": place.up,
            "in_flight": place.in_flight,
            "statistics": "none" if place.statistics is None else place.statistics.state,
            "models": {
                model: {
                    "in_flight": lane.in_flight,
                    "ejected": not lane.breaker.closed,
                    "health": lane.health.state,
                    "p50_s": None if lane.times.cold else lane.times.quantile_s(0.5),
                    "p95_s": None if lane.times.cold else lane.times.quantile_s(0.95),
                }
                for model, lane in place.lanes.items()
            },
            "unbatched": {model: str(verdict) for model, verdict in place.unbatched.items()},
            "runs_on": {
                one.model: {"provider": one.provider, "graph": one.graph, "threads": one.threads}
                for one in place.provided()
            },
        }
        for name, place in places.items()
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


def publish(metrics: Metrics, places: Mapping[str, EndpointState], groups: Groups) -> None:
    """Bring the gauges up to date; called when they are read."""
    onprem = [place for place in places.values() if place.settings.zone is Zone.ONPREM]
    metrics.onprem_up.set(any(place.up and not place.drained for place in onprem))
    for name, place in places.items():
        metrics.endpoint_available.labels(name, place.settings.zone.value).set(place.up)
        if place.statistics is not None:
            metrics.statistics_stale.labels(name).set(place.statistics.stale)
        for model, lane in place.lanes.items():
            metrics.model_out.labels(name, model, "ejected").set(not lane.breaker.closed)
            metrics.model_out.labels(name, model, "slow").set(lane.health.state == "slow")

    metrics.model_unbatched.clear()  # another version may be batched
    for name, place in places.items():
        for model, verdict in place.unbatched.items():
            metrics.model_unbatched.labels(name, model, verdict.rows.value).set(1)
    metrics.model_provider.clear()  # a model that was loaded anew may run on another
    for name, place in places.items():
        for one in place.provided():
            metrics.model_provider.labels(name, one.model, one.provider).set(1)
    for name, gpu in groups.shared_gpus():
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
            batches = group.scheduling.model(name)
            metrics.batch_fixed.labels(name, model).set(batches.fixed_s)
            metrics.batch_per_work.labels(name, model).set(batches.per_work_s)
            if batches.error.batches:
                metrics.batch_error.labels(name, model).set(batches.error.mean)
