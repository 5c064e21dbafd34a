"""One choice at an embedded Triton of its own, which serves nothing else."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from gateway.endpoints.triton.server.options import TritonOptions
from gateway.endpoints.triton.server.server import TritonServer
from gateway.models import batching, configs, versions
from gateway.models.declaration import Declaration
from gateway.models.declaration.serving import ServingTarget
from gateway.models.declaration.tensors import Precision
from gateway.models.profiling import LoadPoint
from gateway.models.profiling.load import CannotMeasure, LoadTarget, connected
from gateway.models.profiling.run import doubling, load_point
from gateway.models.profiling.samples import requests
from gateway.models.profiling.search import ChoiceTrial, ServingChoice
from gateway.models.profiling.search.record import SearchPlan
from gateway.models.profiling.search.space import SearchSpace

_SAMPLES = 16
_GRACE_S = 5.0
_ON_CPU = (Precision.FP32, Precision.FP16, Precision.INT8)


def space(
    directory: Path, declared: Declaration, cores: int, batches: tuple[int, ...]
) -> SearchSpace:
    """Of the variants that are there; tries of which precision callers' rows may share a batch."""
    own = declared.graph.precision if declared.graph else None
    start = ServingChoice.from_declaration(declared)
    there, coupled = [], set()
    for precision in _ON_CPU if own else ():
        if precision is not own and (
            precision not in declared.precisions
            or not versions.variant(directory, declared, precision).exists()
        ):
            continue
        there.append(precision)
        choice = ServingChoice(precision, start.instances, start.threads, start.max_batch, True)
        embedded = choice.applied(declared)
        only = {ServingTarget.EMBEDDED: embedded.targets[ServingTarget.EMBEDDED]}
        if not start.dynamic or batching.failed(
            directory, embedded.model_copy(update={"targets": only})
        ):
            coupled.add(precision)
    return SearchSpace(cores, tuple(there), frozenset(coupled), batches)


async def measured(
    directory: Path,
    declared: Declaration,
    choice: ServingChoice,
    plan: SearchPlan,
    progress: Callable[[], None],
) -> ChoiceTrial:
    """Raises TritonServerError where no Triton starts, and CannotSample."""
    served = choice.applied(declared)
    samples = requests(declared, 1, plan.words, _SAMPLES)
    with _repository(directory, served) as repository:
        options = TritonOptions((repository,), (declared.name,), stop_grace_s=_GRACE_S)
        async with TritonServer(options) as server:
            for why in server.unavailable.values():
                return ChoiceTrial(choice, failure=f"does not load: {why[:500]}")
            address = f"127.0.0.1:{server.ports.grpc}"
            async with connected(address, declared.name, declared.decoupled) as target:
                try:
                    return ChoiceTrial(choice, await _loads(target, samples, plan, progress))
                except CannotMeasure as exc:
                    return ChoiceTrial(choice, failure=str(exc))


async def _loads(
    target: LoadTarget, samples: list[bytes], plan: SearchPlan, progress: Callable[[], None]
) -> tuple[LoadPoint, ...]:
    points: list[LoadPoint] = []
    for callers in doubling(plan.most_callers):
        points.append(load_point(callers, [await target.measure(samples, callers, plan.point_s)]))
        progress()
    return tuple(points)


@contextlib.contextmanager
def _repository(directory: Path, declared: Declaration) -> Iterator[Path]:
    """With this model alone, as the declaration has it; its version's files where they stand."""
    with tempfile.TemporaryDirectory(prefix="spillway-search-") as made:
        model = Path(made) / declared.name
        model.mkdir()
        version = versions.current(directory).resolve()
        (model / version.name).symlink_to(version)
        config = configs.pbtxt(declared, ServingTarget.EMBEDDED)
        (model / "config.pbtxt").write_text(config, encoding="utf-8")
        yield Path(made)
