"""Whether an ONNX graph can be read, and has the tensors that the declaration says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gateway.endpoints.batch_rows.row_trial import Batch
from gateway.models.declaration import Declaration
from gateway.models.declaration.tensors import DeclaredDatatype, TensorDeclaration
from gateway.models.registry import UnfitVersion
from gateway.models.registry.fallback import CODE

_KINDS = {
    "tensor(bool)": DeclaredDatatype.BOOL,
    "tensor(float16)": DeclaredDatatype.FP16,
    "tensor(bfloat16)": DeclaredDatatype.BF16,
    "tensor(float)": DeclaredDatatype.FP32,
    "tensor(double)": DeclaredDatatype.FP64,
    "tensor(string)": DeclaredDatatype.BYTES,
    **{f"tensor(int{bits})": DeclaredDatatype(f"INT{bits}") for bits in (8, 16, 32, 64)},
    **{f"tensor(uint{bits})": DeclaredDatatype(f"UINT{bits}") for bits in (8, 16, 32, 64)},
}


def check(directory: Path, declaration: Declaration) -> None:
    """Of every graph in a version's directory, and whether it has the code that the embedded server
    runs. Raises Unfit."""
    if not (directory / CODE).exists():  # guard: R2.code-present
        raise UnfitVersion(f"the version has no {CODE}, without which the embedded server hangs")
    for path in sorted(directory.rglob("*.onnx")):
        session = _opened(path)
        if declaration.graph is None or path != directory / declaration.graph.file:
            continue
        wanted, got = declaration.graph_inputs, session.get_inputs()
        _same(path.name, "input", wanted, got, declaration.batch is not None)
        wanted, got = declaration.graph_outputs, session.get_outputs()
        _same(path.name, "output", wanted, got, declaration.batch is not None)
        _rows_apart(path.name, session, declaration)  # guard: E4.registry-trial
    if declaration.graph is not None and not (directory / declaration.graph.file).exists():
        raise UnfitVersion(
            f"the version has no {declaration.graph.file}, which the declaration names as its graph"
        )


def _rows_apart(file: str, session: Any, declaration: Declaration) -> None:
    """Whether it may batch callers' rows, where the model here does."""
    from gateway.models import batching  # ONNX Runtime, slow to import, and only looked at here

    if not batching.is_requested(declaration):
        return

    def run(feed: Batch) -> Batch | None:
        try:
            answers = session.run(None, dict(feed))
        except Exception:  # noqa: BLE001  # its errors have no common class of their own
            return None
        return dict(zip((o.name for o in session.get_outputs()), answers, strict=True))

    assert declaration.graph is not None
    verdict = batching.tried(declaration, run, declaration.graph.precision)
    if (problem := batching.refusal(declaration, verdict)) is not None:
        raise UnfitVersion(f"{file}: {problem}")


def _opened(path: Path) -> Any:
    import onnxruntime  # slow to import, and only looked at here

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    try:
        return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except Exception as exc:  # noqa: BLE001  # its errors have no common class of their own
        reason = (str(exc) or type(exc).__name__).splitlines()[0]
        raise UnfitVersion(
            f"{path.name} is no ONNX graph that ONNX Runtime can load "
            f"({reason[:200]}); build the version again and push it anew"
        ) from None


def _same(
    file: str, kind: str, wanted: Mapping[str, TensorDeclaration], got: Sequence[Any], batch: bool
) -> None:
    there = {tensor.name: tensor for tensor in got}
    missing = {name for name, tensor in wanted.items() if not tensor.optional} - there.keys()
    more = there.keys() - wanted.keys()
    if missing or (more and kind == "input"):
        raise UnfitVersion(
            f"{file} has the {kind}s {', '.join(sorted(there)) or 'none'}; declared are "
            f"{', '.join(sorted(wanted))}"
        )
    for name, declared in wanted.items():
        if name in there and not _fits(declared, there[name], batch):
            raise UnfitVersion(
                f"{file}: the {kind} {name} is {there[name].type} {there[name].shape}; declared is "
                f"{declared.datatype.value} {list(declared.dims)}"
                f"{' behind a batch axis' if batch else ''}. Pull a version that fits, or declare "
                "a model of another name"
            )


def _fits(declared: TensorDeclaration, got: Any, batch: bool) -> bool:
    shape = list(got.shape[1:] if batch else got.shape)
    if batch and got.shape and isinstance(got.shape[0], int) and got.shape[0] != -1:
        return False  # one row at a time, or so many and no other number
    return (
        _KINDS.get(got.type) is declared.datatype
        and len(shape) == len(declared.dims)
        and all(
            not isinstance(have, int) or not isinstance(want, int) or want < 0 or have == want
            for have, want in zip(shape, declared.dims, strict=True)
        )
    )
