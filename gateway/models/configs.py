"""The pbtxt of each target, from the declaration; `spillway models config` writes them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from gateway.models.declaration import Declaration
from gateway.models.declaration.serving import Backend, ServingTarget, TargetDeclaration
from gateway.models.declaration.tensors import DeclaredDatatype, TensorDeclaration

HEAD = "# Generated from model.yaml by `spillway models config`; change that file and run it again."
_DEFAULT_FILES = {Backend.ONNXRUNTIME: "model.onnx", Backend.TENSORRT_PLAN: "model.plan"}


def place(directory: Path, target: ServingTarget) -> Path:
    if target is ServingTarget.EMBEDDED:
        return directory / "config.pbtxt"
    return directory / "configs" / f"{target.value}.pbtxt"


def generated(directory: Path, declaration: Declaration) -> dict[Path, str]:
    """Every file that the declaration stands for, and what must be in it."""
    return {place(directory, target): pbtxt(declaration, target) for target in declaration.targets}


def stale(directory: Path, declaration: Declaration) -> list[Path]:
    """Files that are not what the declaration generates, or that no target of it wants."""
    wanted = generated(directory, declaration)
    # guard: V3.config-drift minus 2
    wrong = [p for p, text in wanted.items() if not p.exists() or p.read_text() != text]
    others = set((directory / "configs").glob("*.pbtxt")) - wanted.keys()
    return sorted([*wrong, *others])


def write(directory: Path, declaration: Declaration) -> list[Path]:
    """Returns what was changed."""
    changed = stale(directory, declaration)
    wanted = generated(directory, declaration)
    for path in changed:
        if path not in wanted:
            path.unlink()
            continue
        path.parent.mkdir(exist_ok=True)
        temporary = path.with_name(f".{path.name}.new")
        temporary.write_text(wanted[path], encoding="utf-8")
        temporary.replace(path)
    return changed


def pbtxt(declaration: Declaration, target: ServingTarget) -> str:
    served = declaration.targets[target]
    return "\n".join([HEAD, *_lines(declaration, target, served)]) + "\n"


def variant_file(declaration: Declaration, served: TargetDeclaration) -> str | None:
    """The file of the variant that a target serves, in the version's directory."""
    if declaration.graph is None:
        return None
    graph = Path(declaration.graph.file)
    if served.backend is Backend.TENSORRT_PLAN:
        precision = served.precision or declaration.graph.precision
        return f"model.{precision.value}.plan"
    if served.precision in (None, declaration.graph.precision):
        return graph.name
    return f"{graph.stem}.{served.precision.value}{graph.suffix}"


def _lines(
    declaration: Declaration, target: ServingTarget, served: TargetDeclaration
) -> Iterator[str]:
    native = served.backend is not Backend.PYTHON
    yield f'name: "{declaration.name}"'
    yield f'backend: "{served.backend.value}"'
    file = variant_file(declaration, served)
    if native and file and file != _DEFAULT_FILES.get(served.backend):
        yield f'default_model_filename: "{file}"'
    yield f"max_batch_size: {declaration.max_batch}"
    batched = declaration.batch is not None
    yield from _tensors("input", declaration.inputs, native, batched)
    yield from _tensors("output", declaration.outputs, native, batched)
    kind = "KIND_CPU" if target is ServingTarget.EMBEDDED else "KIND_GPU"
    yield f"instance_group [ {{ kind: {kind}, count: {served.instances.count} }} ]"
    yield from _batching(declaration)
    if declaration.loaded_versions > 1:
        yield f"version_policy {{ latest {{ num_versions: {declaration.loaded_versions} }} }}"
    if declaration.decoupled:
        yield "model_transaction_policy { decoupled: true }"
    yield from _parameters(declaration, served, None if native else file)


def _tensors(
    kind: str, tensors: Mapping[str, TensorDeclaration], native: bool, batched: bool
) -> Iterator[str]:
    yield f"{kind} ["
    last = len(tensors) - 1
    for at, (name, tensor) in enumerate(tensors.items()):
        dims = ", ".join(str(dim) if isinstance(dim, int) else "-1" for dim in tensor.wire_dims)
        more = ", reshape: { shape: [ ] }" if batched and not tensor.dims else ""
        more += ", optional: true" if tensor.optional else ""
        if tensor.ragged and not native:  # the graph alone would need its rows padded
            more += ", allow_ragged_batch: true"
        comma = "" if at == last else ","
        data_type = f"TYPE_{_wire(tensor.datatype)}"
        yield f'  {{ name: "{name}", data_type: {data_type}, dims: [ {dims} ]{more} }}{comma}'
    yield "]"


def _wire(datatype: DeclaredDatatype) -> str:
    return "STRING" if datatype is DeclaredDatatype.BYTES else datatype.value


def _batching(declaration: Declaration) -> Iterator[str]:
    batching = declaration.batching
    if declaration.batch is None or not batching.dynamic:
        return
    inside = ""  # guard: V3.plain-batching '' -> 'default_queue_policy { max_queue_size: 16 } '
    if batching.preferred:
        inside += f"preferred_batch_size: [ {', '.join(map(str, batching.preferred))} ] "
    if batching.delay_us:
        inside += f"max_queue_delay_microseconds: {batching.delay_us} "
    yield f"dynamic_batching {{ {inside}}}"


def _parameters(
    declaration: Declaration, served: TargetDeclaration, file: str | None
) -> Iterator[str]:
    parameters = dict(declaration.parameters)
    if file is not None and served.precision is not None:
        parameters["graph"] = file
    if served.instances.threads is not None:
        parameters["threads"] = str(served.instances.threads)
    for key, value in parameters.items():
        quoted = value.replace("\\", "\\\\").replace('"', '\\"')
        yield f'parameters {{ key: "{key}" value: {{ string_value: "{quoted}" }} }}'
