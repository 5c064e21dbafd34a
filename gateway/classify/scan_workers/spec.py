"""Which scan workers a gateway's settings ask for."""

from __future__ import annotations

from collections.abc import Collection

from gateway.classify import canaries
from gateway.classify.names import LOOKED_FOR, PERSON
from gateway.classify.profile import Profile
from gateway.classify.scan_workers import frames
from gateway.classify.scan_workers.process import FIRST
from gateway.config import ClassifySettings
from gateway.core.types import Tightening


def worker_spec(
    settings: ClassifySettings, added: Collection[Tightening] = (), *, everything: bool = False
) -> frames.WorkerSpec:
    """How scan workers are built: for verdicts (what restricts any caller), or for reports
    (everything). `added` is what callers add to what restricts."""
    widest = Profile.widest(settings, added)
    named = frozenset(kind for tightening in added for kind in tightening.types)
    return frames.WorkerSpec(
        settings=settings.model_copy(update={"threshold": widest.threshold}),
        factory=frames.FACTORY if everything else FIRST,
        types=None if everything else widest.types,
        required=(canaries.required(settings) | named) - _by_names(settings),
        canaries=canaries.positives(settings, widest.types),
        negatives=() if everything else canaries.NEGATIVES,
    )


def _by_names(settings: ClassifySettings) -> frozenset[str]:
    """Types that these workers need not know, as they are looked for elsewhere. Whether an engine
    of Presidio knows a handle, nobody can say."""
    match settings.names.engine:
        case "off":
            return frozenset()
        case "presidio":
            return frozenset({PERSON})
        case _:
            return LOOKED_FOR
