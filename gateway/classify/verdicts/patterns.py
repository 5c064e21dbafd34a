"""What the patterns say of a call's texts: at once where the gate or a proof tells, else by a scan
in a worker of what was not scanned before."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping, Sequence
from types import MappingProxyType
from typing import TypeAlias

from gateway.classify import Scans
from gateway.classify.conversations.memory import BETWEEN, Beginning, Recalled, Scope, SegmentMemory
from gateway.classify.gate.armed import ArmedGate
from gateway.classify.gate.evidence import Evidence
from gateway.classify.profile import Profile
from gateway.classify.verdicts.budget import ReadingBudget
from gateway.classify.verdicts.policies import CallerPolicy
from gateway.core.structs import value
from gateway.core.types import Finding, InferenceRequest

Verdict: TypeAlias = tuple[str, Mapping[str, int]]
"""The reason code, and how many values of each type were found."""
NOTHING: Mapping[str, int] = MappingProxyType({})
CLEAR_VERDICT: Verdict = ("clear", NOTHING)

_DETECTOR = "patterns"  # where verdicts are remembered
_GATE_MOST = 131_072
"""Characters that the gate is asked about: a millisecond of the event loop's time. Longer texts go
to a worker."""
_CONVERSATION, _LONG = 4, 4096
"""Texts, and characters in them, from which on it costs less to know a beginning again than to ask
the gate (`loadtests.bench.classify`)."""


@value
class PendingScan:
    """What a verdict still needs."""

    known: Recalled
    scope: Scope
    beginning: Beginning | None = None


class PatternVerdicts:
    def __init__(
        self,
        scans: Scans,
        gate: ArmedGate,
        evidence: Evidence,
        segments: SegmentMemory,
        budget: ReadingBudget,
        widest: Profile,
    ) -> None:
        """`widest`: what the scanners look for."""
        self._scans = scans
        self._gate = gate
        self._evidence = evidence
        self._segments = segments
        self._budget = budget
        self._widest = widest

    def at_once(
        self, request: InferenceRequest, policy: CallerPolicy, texts: Sequence[str]
    ) -> Verdict | PendingScan:
        """Without waiting; what `scan` goes on with where that is not enough."""
        if not texts:
            return CLEAR_VERDICT
        scope: Scope | None = None
        beginning: Beginning | None = None
        gate = self._gate.gate
        if gate is not None:
            if len(texts) < _CONVERSATION or sum(map(len, texts)) < _LONG:
                rest = BETWEEN.join(texts)
            else:
                scope = Scope(request.tenant, policy.version, _DETECTOR)
                beginning = self._segments.beginning(scope, texts)
                rest = beginning.rest
            if len(rest) <= _GATE_MOST:  # guard: C14.text-offload always
                evidence, profile = self._evidence, policy.profile
                first = evidence.likely(rest)
                if first and (kind := evidence.find(rest, profile)) is not None:
                    return "entities", {kind: 1}
                if gate.clear(rest):
                    if beginning is not None:
                        assert scope is not None
                        self._segments.keep(scope, beginning)
                    return CLEAR_VERDICT
                if not first and (kind := evidence.find(rest, profile)) is not None:
                    return "entities", {kind: 1}
        scope = scope or Scope(request.tenant, policy.version, _DETECTOR)
        known = self._segments.recall(scope, texts)
        if known.settled:
            return ("entities" if known.restricted else "clear"), known.entities
        return PendingScan(known, scope, beginning)

    async def scan(
        self,
        pending: PendingScan,
        request: InferenceRequest,
        policy: CallerPolicy,
        started_s: float,
    ) -> Verdict:
        """Up to the first finding that restricts. Raises NoScan."""
        profile = policy.profile

        async def scan(texts: Sequence[str]) -> list[list[Finding]]:
            def work(left_s: float) -> Awaitable[list[list[Finding]]]:
                if profile == self._widest:
                    return self._scans.scan(texts, left_s)
                return self._scans.scan(texts, left_s, (profile.types, profile.threshold))

            return await self._budget.read(request, started_s, sum(map(len, texts)), work)

        restricted, counts = await self._segments.scan_unseen(
            pending.scope, pending.known, scan, profile
        )
        # guard: C15.clear-only minus 1
        if not (restricted or counts) and pending.beginning is not None:
            self._segments.keep(pending.scope, pending.beginning)
        return ("entities" if restricted else "clear"), counts
