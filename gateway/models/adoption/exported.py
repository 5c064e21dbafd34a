"""What exporters write beside a plain ONNX graph: folders, files of weights, maps of scores.

Classifiers of scikit-learn end in a ZipMap where skl2onnx exports them: a list of maps from class
to score, which no protocol carries. The tensor of scores stands before it.
"""

from __future__ import annotations

import contextlib
import math
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gateway.models import graph
from gateway.models.declaration.tensors import Precision
from gateway.models.failures import WrongModel

_TORCH = "torch.onnx.export(model.eval(), args, 'model.onnx', dynamic_shapes=...)"
_HUGGING_FACE = "optimum-cli export onnx --model {} OUTPUT"
_EXPORTS = {
    **dict.fromkeys((".pt", ".pth", ".ckpt", ".torchscript"), _TORCH),
    **dict.fromkeys((".safetensors", ".bin"), _HUGGING_FACE),
    **dict.fromkeys((".joblib", ".pkl", ".pickle"), "skl2onnx.to_onnx(model, rows[:1])"),
    **dict.fromkeys((".keras", ".h5"), "model.export('model.onnx', format='onnx')"),
    ".pb": "python -m tf2onnx.convert --saved-model {} --output model.onnx",
    ".tflite": "python -m tf2onnx.convert --tflite FILE --output model.onnx",
}
"""How each framework's own files become ONNX, by suffix; `{}` is their folder."""
SUFFIXES = (".onnx", *_EXPORTS)
_FLOAT = 1  # of onnx.TensorProto.DataType
_SHAPE_VALUES = 8  # of a constant that may be a shape


@dataclass(frozen=True, slots=True)
class Export:
    """What is to be adopted. `model`: an onnx.ModelProto without maps; `classes`: by output, those
    that its columns stand for."""

    file: Path
    tokenizer: Path | None
    model: Any
    signature: graph.Signature
    classes: Mapping[str, Sequence[int | str]]

    def write(self, at: Path, taken: Sequence[str]) -> None:
        """The graph, and its files of weights beside it. `taken`: names of other files there.
        Raises WrongModel."""
        if at.exists():
            with contextlib.suppress(WrongModel):  # of the version before, however damaged it is
                for name in graph.external_files(graph.read(at)):
                    (at.parent / name).unlink(missing_ok=True)
        for name in graph.external_files(self.model):
            if name in (at.name, *taken):
                raise WrongModel(
                    f"{self.file}: has weights in a file called {name}; call it otherwise"
                )
            (at.parent / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(self.file.parent / name, at.parent / name)
        if self.classes:
            at.write_bytes(self.model.SerializeToString())
        else:
            shutil.copyfile(self.file, at)

    def hints(self) -> Iterator[int]:
        """Sizes of its weights, and those that it reshapes to."""
        from onnx import TensorProto, numpy_helper  # an extra: a gateway that serves needs none

        for tensor in graph.tensors(self.model.graph):
            yield from tensor.dims
            held = tensor.data_location != TensorProto.EXTERNAL
            small = held and math.prod(tensor.dims) <= _SHAPE_VALUES
            if small and tensor.data_type == TensorProto.INT64:
                yield from numpy_helper.to_array(tensor).ravel().tolist()

    def has_halves(self) -> bool:
        """Whether 16 bits of its weights could be written."""
        weights = {tensor.data_type for tensor in graph.tensors(self.model.graph)}
        own = graph.precision(self.model) is Precision.FP32 and _FLOAT in weights
        return own and graph.size_bytes(self.file, self.model) <= graph.LARGEST_FILE_BYTES


def read(given: Path, tokenizer: Path | None) -> Export:
    """An ONNX file, or that of a folder as Optimum writes it, with its tokenizer. Raises
    WrongModel, where it is none with the export that is to be made first."""
    file, tokenizer = _located(given, tokenizer)
    model = graph.read(file)
    classes = without_maps(model)
    try:
        return Export(file, tokenizer, model, graph.signature(model), classes)
    except WrongModel as exc:
        raise WrongModel(f"{file}: {exc}") from None


def _located(given: Path, tokenizer: Path | None) -> tuple[Path, Path | None]:
    if given.is_dir():
        return _in_folder(given, tokenizer)
    if given.suffix in _EXPORTS:
        how = _EXPORTS[given.suffix].format(given.parent)
        raise WrongModel(f"{given}: is no ONNX file; export it: {how}")
    return given, tokenizer


def _in_folder(folder: Path, tokenizer: Path | None) -> tuple[Path, Path | None]:
    graphs = [p for at in (folder, folder / "onnx") for p in sorted(at.glob("*.onnx"))]
    whole = [path for path in graphs if path.name == "model.onnx"] or graphs
    if len(whole) == 1:
        own = folder / "tokenizer.json"
        return whole[0], tokenizer or (own if own.is_file() else None)
    if whole:
        names = ", ".join(path.name for path in whole)
        raise WrongModel(f"{folder}: has several graphs ({names}); name one of them")
    held = next((p for p in sorted(folder.glob("*")) if p.suffix in _EXPORTS), None)
    how = _EXPORTS[held.suffix] if held else _HUGGING_FACE
    raise WrongModel(f"{folder}: has no ONNX file; export it: {how.format(folder)}")


def without_maps(model: Any) -> dict[str, tuple[int | str, ...]]:
    """Replace every ZipMap of a graph by the tensor of scores that it takes. Returns the classes
    of each such output, a column each; nothing has changed where there are none."""
    from onnx import TensorProto, helper  # an extra: a gateway that serves needs none

    classes: dict[str, tuple[int | str, ...]] = {}
    outputs = {value.name: value for value in model.graph.output}
    for node in model.graph.node:
        if node.op_type != "ZipMap" or node.output[0] not in outputs:
            continue
        names = [v for a in node.attribute for v in helper.get_attribute_value(a)]
        name = node.output[0]
        classes[name] = tuple(v.decode() if isinstance(v, bytes) else int(v) for v in names)
        output = helper.make_tensor_value_info(name, TensorProto.FLOAT, [None, len(names)])
        outputs[name].CopyFrom(output)
        node.CopyFrom(helper.make_node("Identity", list(node.input), [name], node.name))
    if classes and not any(not opset.domain for opset in model.opset_import):
        model.opset_import.append(helper.make_opsetid("", 13))
    return classes
