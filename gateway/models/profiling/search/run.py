"""A search from its beginning, or from where an earlier one was interrupted, to its result."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from gateway.config import ConfigError, yaml_editing
from gateway.core import ambient
from gateway.models import configs, declaration, versions
from gateway.models.declaration import Declaration
from gateway.models.declaration.serving import ServingTarget
from gateway.models.failures import WrongModel
from gateway.models.profiling.search import ChoiceTrial, ServingChoice
from gateway.models.profiling.search.climb import MOST_CONFIRMED, ChoiceResult, climb
from gateway.models.profiling.search.record import SearchPlan, SearchRecord
from gateway.models.profiling.search.space import SearchSpace
from gateway.models.profiling.search.trial import measured

_LEFT = 2 + MOST_CONFIRMED  # trials that must fit in what is left: one more, and those that confirm

_TARGETS = "targets"

Progress = Callable[[ServingChoice, float], None]
"""Called with the choice that is tried and the seconds since the beginning."""


class ModelSearch:
    """The trials of one model. Each measurement is saved at once."""

    def __init__(
        self,
        directory: Path,
        declared: Declaration,
        plan: SearchPlan,
        record: SearchRecord,
        progress: Progress,
    ) -> None:
        self._directory, self._declared, self._plan = directory, declared, plan
        self._record, self._progress = record, progress
        self._began_s = ambient.monotonic_s()
        self._longest_s = 0.0

    async def result(self, space: SearchSpace) -> ChoiceResult:
        """Raises TritonServerError and CannotSample."""
        start = ServingChoice.from_declaration(self._declared)
        limit_s = self._plan.limit_s
        return await climb(space, start, limit_s, self._tried, self._again, self._in_time)

    async def _tried(self, choice: ServingChoice) -> ChoiceTrial:
        known = self._record.trials.get(choice)
        return known if known is not None else await self._measured(choice)

    async def _again(self, choice: ServingChoice) -> ChoiceTrial:
        before = self._record.trials[choice]
        return before.merged(await self._measured(choice, before))

    async def _measured(
        self, choice: ServingChoice, before: ChoiceTrial | None = None
    ) -> ChoiceTrial:
        began_s = ambient.monotonic_s()

        def progress() -> None:
            self._progress(choice, ambient.monotonic_s() - self._began_s)

        progress()
        trial = await measured(self._directory, self._declared, choice, self._plan, progress)
        self._longest_s = max(self._longest_s, ambient.monotonic_s() - began_s)
        self._record.add(trial if before is None else before.merged(trial))
        return trial

    def _in_time(self) -> bool:
        passed_s = ambient.monotonic_s() - self._began_s
        return passed_s + _LEFT * self._longest_s < self._plan.seconds


def keep(directory: Path, declared: Declaration, choice: ServingChoice) -> list[Path]:
    """Write the choice into model.yaml, in one step, and the configs that follow from it. Returns
    what was changed. Raises WrongModel where model.yaml is not written so that it can be."""
    path, wanted = versions.declaration_file(directory), choice.applied(declared)
    values = _values(declared, wanted)

    def changed(text: str) -> str:
        for section, value in values.items():
            if section == _TARGETS:
                text = yaml_editing.with_entry(text, section, ServingTarget.EMBEDDED.value, value)
            else:
                text = yaml_editing.with_key(text, section, value)
        if declaration.parse(text, str(path)).model_dump() != wanted.model_dump():
            raise ConfigError(str(path))
        return text

    try:
        yaml_editing.rewrite(path, changed)
    except ConfigError:
        lines = "; ".join(f"{section}: {value}" for section, value in values.items())
        raise WrongModel(
            f"{path}: cannot be changed by a command; write into it: {lines}"
        ) from None
    return [path, *configs.write(directory, wanted)]


def _values(declared: Declaration, wanted: Declaration) -> dict[str, Any]:
    """Those that differ; of the targets, that of the embedded server."""
    embedded = ServingTarget.EMBEDDED
    sections = {
        _TARGETS: (declared.targets[embedded], wanted.targets[embedded]),
        "batching": (declared.batching, wanted.batching),
        "batch": (declared.batch, wanted.batch),
    }
    return {
        section: after.model_dump(mode="json", exclude_defaults=True)
        for section, (before, after) in sections.items()
        if after is not None and after != before
    }
