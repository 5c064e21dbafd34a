"""Findings in answers: counted, on record where one is not clear, and shown on the console."""

from __future__ import annotations

from typing import Any

from gateway.accounting.measures import measures_for
from gateway.accounting.metrics import Metrics
from gateway.accounting.records import DecisionLog, RecordUnwritable
from gateway.classify.verdicts.answers import CLEAR_ANSWER, ENTITIES, AnswerReading
from gateway.core import ambient
from gateway.core.reply import Placement
from gateway.core.types import InferenceRequest


class AnswerLog:
    def __init__(self, log: DecisionLog, metrics: Metrics) -> None:
        self._log, self._metrics = log, metrics
        self._measures = measures_for(metrics)
        self._wall_s = ambient.calendar()

    def __call__(
        self, request: InferenceRequest, placement: Placement, reading: AnswerReading
    ) -> None:
        metrics, zone = self._metrics, placement.zone.name
        metrics.answers_read.labels(zone, _result(reading)).inc()
        parts = (("text", reading.entities), ("tool_call", reading.tool_calls))
        for part, counts in parts:
            for kind, count in counts.items():
                metrics.answer_entities.labels(kind, part, zone).inc(count)
        if reading.reason == CLEAR_ANSWER and not reading.masked:
            return
        record = self._record(request, placement, reading)
        try:
            self._log.note(record)
        except RecordUnwritable:
            metrics.record_failures.inc()
        if self._measures.watch_answers is not None:
            self._measures.watch_answers(record)

    def _record(
        self, request: InferenceRequest, placement: Placement, reading: AnswerReading
    ) -> dict[str, Any]:
        return {
            "kind": "answer",
            "time": round(self._wall_s(), 3),
            "id": request.record_id,
            "tenant": request.tenant,
            "model": request.model,
            "endpoint": placement.endpoint,
            "zone": placement.zone.name,
            "answer_reason": reading.reason,
            "answer_entities": dict(reading.entities),
            "tool_call_entities": dict(reading.tool_calls),
            "masked": reading.masked,
            "withheld": reading.withheld,
        }


def _result(reading: AnswerReading) -> str:
    if reading.withheld:
        return "withheld"
    if reading.reason == CLEAR_ANSWER:
        return "clear"
    return "restricted" if reading.reason == ENTITIES else "unread"
