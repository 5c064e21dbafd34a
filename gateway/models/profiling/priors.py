"""What is expected of a model's batches before any was seen: what `spillway models profile` found.

Only what was measured on this machine counts. Of another one, or without a profile, the endpoint's
`expected_ms` is all that is known.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path

from gateway.models.profiling import FILE, BadProfile, Machine, ModelProfile, read
from gateway.scheduling.queues import Prior

log = logging.getLogger(__name__)


def measured(repository: Path, machine: Machine | None = None) -> Mapping[str, Prior]:
    """By the names of a repository's models."""
    this = machine or Machine.this()
    profiles = {path.parent.name: _read(path) for path in sorted(repository.glob(f"*/{FILE}"))}
    return {
        model: Prior(profile.fixed_s, profile.per_row_s)
        for model, profile in profiles.items()
        if profile is not None and _fits(model, profile, this)
    }


def _read(path: Path) -> ModelProfile | None:
    try:
        return read(path)
    except (BadProfile, OSError) as exc:
        log.warning("%s", exc)
        return None


def _fits(model: str, profile: ModelProfile, this: Machine) -> bool:
    if profile.machine != this:
        log.info(
            "%s was profiled on another machine; here expected_ms counts until batches were seen, "
            "or: spillway models profile %s", model, model,
        )  # fmt: skip
    return profile.machine == this  # guard: E2.machine-match -> return True
