"""A graph in 16 bits: weights and activations in fp16 or bf16, inputs and outputs as they were.

What loses its meaning in 16 bits (small constants, sums of squares) stays in 32.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

from gateway.models import graph
from gateway.models.declaration.tensors import Precision
from gateway.models.failures import needs

_IN_32 = ("LayerNormalization", "ReduceL2", "ReduceMean", "ReduceSum", "Softmax", "Pow", "Sqrt")


def written(source: Path, target: Path, precision: Precision) -> None:
    try:
        from onnxruntime.transformers import float16  # imports onnx, which is an extra
    except ModuleNotFoundError:
        raise needs("onnx", "models") from None
    model = graph.weighted(source)
    with warnings.catch_warnings():  # of each value that is cut off at the edge of fp16's range
        warnings.simplefilter("ignore")
        halves = float16.convert_float_to_float16(
            model,
            keep_io_types=True,
            op_block_list=[*float16.DEFAULT_OP_BLOCK_LIST, *_IN_32],
        )
    if precision is Precision.BF16:
        _to_bfloat16(halves, graph.weighted(source))
    import onnx  # as above

    onnx.save(halves, str(target))


def _to_bfloat16(halves: Any, source: Any) -> None:
    """The same graph with the other 16 bits; its constants are cut from the fp32 ones again,
    since fp16 has lost what is out of its range."""
    import ml_dtypes  # onnx brings both
    import numpy as np
    from onnx import TensorProto, numpy_helper

    whole = {tensor.name: tensor for tensor in source.graph.initializer}
    for tensor in halves.graph.initializer:
        if tensor.data_type == TensorProto.FLOAT16:
            values = numpy_helper.to_array(whole.get(tensor.name, tensor)).astype(np.float32)
            tensor.CopyFrom(numpy_helper.from_array(values.astype(ml_dtypes.bfloat16), tensor.name))
    for node in halves.graph.node:
        for attribute in node.attribute:
            if attribute.name == "to" and attribute.i == TensorProto.FLOAT16:
                attribute.i = TensorProto.BFLOAT16
    for value in [*halves.graph.value_info]:
        if value.type.tensor_type.elem_type == TensorProto.FLOAT16:
            value.type.tensor_type.elem_type = TensorProto.BFLOAT16
