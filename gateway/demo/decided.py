"""The gateway's decision records, read while they are written."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gateway.accounting.audit.reports.calls import Key, record_key


@dataclass(frozen=True, slots=True)
class Decided:
    """What the gateway says of one call."""

    restricted: bool  # its verdict; a call that it never read counts as restricted
    reason: str
    outcome: str  # "sent" until its end is on record
    end_reason: str
    latency_critical: bool
    tried: tuple[str, ...]  # the zones of its attempts
    cost_usd: Mapping[str, float]  # by zone

    @property
    def final(self) -> bool:
        return self.outcome != "sent"

    @property
    def served_in(self) -> str | None:
        served = self.outcome in ("served", "sent")
        return self.tried[-1] if served and self.tried else None

    @property
    def spilled(self) -> bool:
        """Served in the cloud although on-prem serves its model too."""
        return self.served_in == "cloud" and self.reason != "cloud_only"


class DecisionFeed:
    """Decisions by trace id. `read` takes in what has been written since the last time."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._offsets: dict[Path, int] = {}  # of each segment
        self._records: dict[str, dict[str, Any]] = {}
        self._traces: dict[Key, str] = {}
        self.by_trace: dict[str, Decided] = {}

    def read(self) -> None:
        for path in sorted(self._directory.glob("*.jsonl")):
            with path.open("rb") as lines:
                lines.seek(self._offsets.get(path, 0))
                for line in lines:
                    if not line.endswith(b"\n"):  # still being written
                        break
                    self._offsets[path] = self._offsets.get(path, 0) + len(line)
                    self._take(json.loads(line))

    def _take(self, record: dict[str, Any]) -> None:
        if record["kind"] not in ("call", "end"):  # the audit's own
            return
        if record["kind"] == "end":
            trace = self._traces[record_key(record)]
            record = {**self._records[trace], **record}
        else:
            trace = self._traces[record_key(record)] = record["trace"]
        self._records[trace] = record
        self.by_trace[trace] = decided(record)


def decided(record: Mapping[str, Any]) -> Decided:
    attempts = record["attempts"]
    cost_usd: dict[str, float] = {}
    for attempt in attempts:
        cost_usd[attempt["zone"]] = cost_usd.get(attempt["zone"], 0.0) + attempt["price_usd"]
    return Decided(
        restricted=record["sensitivity"] != "clear",
        reason="failover" if len(attempts) > 1 else record["reason"] or "",
        outcome=record["outcome"],
        end_reason=record.get("end_reason", ""),
        latency_critical=bool(record["latency_critical"]),
        tried=tuple(attempt["zone"] for attempt in attempts),
        cost_usd=cost_usd,
    )
