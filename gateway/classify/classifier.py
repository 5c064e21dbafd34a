"""The verdict on one call: clear, or restricted and why. There is no third answer.

Reason codes: `clear`, `entities`, `unscannable:<what>`, `over_cap`, `late`, `failed`, `busy`,
`undeclared_model`, `tensor_class`. Only the first is clear.

A call that is restricted without a scan is not scanned: the scan could not change where it goes,
and scanners are the scarce part. Its record then has no entity counts. All others are scanned in
full, not up to the first finding, so that records count every entity.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import logging
from collections import Counter
from collections.abc import Mapping

from gateway.catalog import Catalog
from gateway.classify import NoScan, ScanFailed, Scans, canaries, frames
from gateway.classify.extract import UNDECLARED, extract
from gateway.classify.pool import ScanPool
from gateway.classify.profile import Profile
from gateway.config import ClassifySettings
from gateway.deadline import Clock
from gateway.errors import UnknownModel
from gateway.types import Classification, Finding, InferenceRequest, Sensitivity

log = logging.getLogger(__name__)

REVISION = 1  # of the rules in this package: what is read, which forms, which types restrict
_BETWEEN = "\n|\n"  # between the strings of one call: no value can match across it


def worker_spec(settings: ClassifySettings, *, everything: bool = False) -> frames.WorkerSpec:
    """How scan workers are built: for verdicts (what restricts), or for reports (everything)."""
    return frames.WorkerSpec(
        settings=settings,
        types=None if everything else Profile.of(settings).types,
        required=canaries.required(settings),
        canaries=canaries.positives(settings),
        negatives=() if everything else canaries.NEGATIVES,
    )


def scan_pool(settings: ClassifySettings) -> ScanPool:
    """The pool that a gateway with these settings classifies with."""
    return ScanPool(worker_spec(settings), settings.workers, settings.max_waiting)


class Classifier:
    """Never raises but for cancellation: every failure is a restricted call."""

    def __init__(
        self, settings: ClassifySettings, catalog: Catalog, pool: Scans, clock: Clock
    ) -> None:
        self._settings = settings
        self._profile = Profile.of(settings)
        self._catalog = catalog
        self._pool = pool
        self._clock = clock
        self._version = _version(settings)

    @property
    def version(self) -> str:
        """Names policy and detector in records; a verdict is only comparable within one version."""
        return self._version

    async def start(self) -> None:
        """Raises ScannerUnfit when a scanner misses one of its samples (C8)."""
        await self._pool.start()

    async def aclose(self) -> None:
        await self._pool.aclose()

    async def classify(self, request: InferenceRequest) -> Classification:
        started_s = self._clock()
        found: Mapping[str, int] = {}
        try:
            reason, found = await self._verdict(request, started_s)
        except NoScan as failure:
            reason = failure.reason
        except Exception as failure:  # noqa: BLE001 - whatever goes wrong here, the call stays on the premises
            log.error("classifying %s failed: %s", request.id, type(failure).__name__)
            reason = ScanFailed.reason
        return Classification(
            request_id=request.id,
            sensitivity=Sensitivity.CLEAR if reason == "clear" else Sensitivity.RESTRICTED,
            reason=reason,
            entities=found,
            classify_s=max(0.0, self._clock() - started_s),
        )

    async def _verdict(
        self, request: InferenceRequest, started_s: float
    ) -> tuple[str, Mapping[str, int]]:
        try:
            model = self._catalog.find(request.model)
        except UnknownModel:
            return UNDECLARED, {}
        read = extract(request.payload, model, self._settings.max_scan_bytes)
        if read.unscannable is not None:
            return read.unscannable, {}
        if not read.texts:
            return "clear", {}
        spent_s = self._clock() - started_s
        left_s = min(self._settings.budget_ms / 1e3 - spent_s, request.deadline.remaining_s())
        (findings,) = await self._pool.scan([_BETWEEN.join(read.texts)], left_s)
        return self._weigh(findings)

    def _weigh(self, findings: list[Finding]) -> tuple[str, Mapping[str, int]]:
        counts = Counter(f.type for f in findings if f.score >= self._profile.threshold)
        return ("entities" if self._profile.restricts(findings) else "clear"), dict(counts)


def _version(settings: ClassifySettings) -> str:
    """`presidio version/revision/hash of what decides`; lists of names go in as a hash only."""
    rules = settings.model_dump_json(exclude={"budget_ms", "workers", "max_waiting"})
    digest = hashlib.sha256(rules.encode()).hexdigest()[:12]
    return f"presidio-{importlib.metadata.version('presidio-analyzer')}/{REVISION}/{digest}"
