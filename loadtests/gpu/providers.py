"""What runs models here: ONNX Runtime's providers and the builders of engines, or why not."""

from __future__ import annotations

import functools
import importlib.metadata
from collections.abc import Iterator

from gateway.endpoints.triton import cuda_libraries
from gateway.endpoints.triton.cuda_libraries import NoReport, Report
from gateway.endpoints.triton.installation import model_environment
from gateway.models.variants.engines.kinds import builders
from loadtests.gpu import Row

_ONNXRUNTIME = (cuda_libraries.TENSORRT, cuda_libraries.CUDA, "CPUExecutionProvider")


@functools.cache
def report() -> Report:
    """Raises NoReport."""
    return cuda_libraries.probe(model_environment())


def cuda_cause() -> str:
    try:
        return report().cause(cuda_libraries.CUDA)
    except NoReport as exc:
        return str(exc)


def rows() -> Iterator[Row]:
    try:
        state = report()
    except NoReport as exc:
        yield Row("providers", "onnxruntime", note=f"does not start: {exc}")
        return
    built = f"{state.version}, {f'for CUDA {state.cuda}' if state.cuda else 'without CUDA'}"
    for provider in _ONNXRUNTIME:
        note = "loads" if provider in state.loads else f"does not load: {state.cause(provider)}"
        optional = [x.name for x in state.missing(provider) if not x.required]
        if optional and provider in state.loads:
            note += f", without {', '.join(optional)}"
        yield Row("providers", f"onnxruntime {built}", way=provider, note=note)
    for builder in builders().values():
        missing = builder.missing()
        note = missing or f"{importlib.metadata.version(builder.name)} is installed"
        yield Row("providers", "engines", way=builder.name, note=note)
