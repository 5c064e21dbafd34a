"""The ways to run a model's graph: the processor, ONNX Runtime on a card, engines."""

from __future__ import annotations

import importlib
import os
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime

from gateway.endpoints.triton import cuda_libraries
from gateway.models import versions
from gateway.models.declaration import Declaration
from gateway.models.declaration.tensors import Precision
from gateway.models.failures import ModelCommandFailed
from gateway.models.served import ort_session
from gateway.models.sessions import Feed, Outputs, Session
from gateway.models.variants import precision
from gateway.models.variants.build import profiles
from gateway.models.variants.engines import Loaded
from gateway.models.variants.engines.kinds import builders
from gateway.models.variants.engines.nvidia import quiet_logger
from loadtests.gpu import providers

CPU, CUDA = "cpu", "cuda"
NO_CARD = "no NVIDIA card here (/dev/nvidiactl is not there)"
_QUERY = "name,memory.total,driver_version,compute_cap"


@dataclass(frozen=True, slots=True)
class Way:
    """`open` makes what it needs in the directory that it is given."""

    name: str
    precision: Precision
    open: Callable[[Path, Declaration, Path], Loaded]


def card() -> str | None:
    """Name, memory, driver and compute capability of the first card; None where there is none."""
    if not Path("/dev/nvidiactl").exists():
        return None
    asked = ["nvidia-smi", f"--query-gpu={_QUERY}", "--format=csv,noheader"]
    told = subprocess.run(asked, capture_output=True, text=True, check=True)
    return told.stdout.splitlines()[0]


def ways(declared: Declaration) -> Iterator[Way]:
    """The processor first, then CUDA, then engines; in fp16 where the model allows it."""
    yield Way(CPU, Precision.FP32, _on_the_processor)
    chosen = [p for p in (Precision.FP32, Precision.FP16) if p in declared.precisions]
    for each in chosen:
        suffix = "" if each is Precision.FP32 else f" {each.value}"
        yield Way(f"{CUDA}{suffix}", each, _on_cuda(each))
        for name in builders():
            yield Way(f"{name}{suffix}", each, _by_engine(name, each))


def _on_the_processor(directory: Path, declared: Declaration, scratch: Path) -> Loaded:
    cores = len(os.sched_getaffinity(0))
    return Loaded(Session(versions.graph_file(directory, declared), threads=cores).run)


def _on_cuda(wanted: Precision) -> Callable[[Path, Declaration, Path], Loaded]:
    def opened(directory: Path, declared: Declaration, scratch: Path) -> Loaded:
        if card() is None:
            return Loaded(why_not=NO_CARD)
        cuda_libraries.preload()
        if cuda_libraries.CUDA not in onnxruntime.get_available_providers():
            return Loaded(why_not="this ONNX Runtime is built without CUDA: onnxruntime-gpu has it")
        graph = _graph(directory, declared, scratch, wanted)
        asked = [(cuda_libraries.CUDA, ort_session.ON_CUDA), ("CPUExecutionProvider", {})]
        session = onnxruntime.InferenceSession(str(graph), providers=asked)
        if session.get_providers()[0] != cuda_libraries.CUDA:
            return Loaded(why_not=f"ONNX Runtime took the processor: {providers.cuda_cause()}")
        outputs = [output.name for output in session.get_outputs()]

        def run(feed: Feed) -> Outputs:
            return dict(zip(outputs, session.run(outputs, dict(feed)), strict=True))

        return Loaded(run)

    return opened


def _by_engine(name: str, wanted: Precision) -> Callable[[Path, Declaration, Path], Loaded]:
    def opened(directory: Path, declared: Declaration, scratch: Path) -> Loaded:
        builder = builders()[name]
        if (missing := builder.missing()) is not None:
            return Loaded(why_not=missing)
        if name == "tensorrt" and card() is None:
            return Loaded(why_not=NO_CARD)
        try:
            engine = scratch / f"{declared.name}.{wanted.value}{builder.suffix}"
            builder.build(_graph(directory, declared, scratch, wanted), profiles(declared), engine)
        except ModelCommandFailed as exc:
            return Loaded(why_not=str(exc))
        told = builder.load(engine)
        return told if card() is None else _runner(name, engine, told)

    return opened


def _runner(name: str, engine: Path, told: Loaded) -> Loaded:
    """Buffers are ONNX Runtime's, which brings the only allocator on a card that we depend on."""
    trt: Any = importlib.import_module(name)
    cuda_libraries.preload()
    logger = quiet_logger(trt)
    opened = trt.Runtime(logger).deserialize_cuda_engine(engine.read_bytes())
    if opened is None:
        return told  # says why it does not open
    context = opened.create_execution_context()
    names = [opened.get_tensor_name(at) for at in range(opened.num_io_tensors)]
    inputs = [n for n in names if opened.get_tensor_mode(n) == trt.TensorIOMode.INPUT]
    types = {n: trt.nptype(opened.get_tensor_dtype(n)) for n in names}

    def run(feed: Feed) -> Outputs:
        held = {}
        for each in inputs:
            array = np.ascontiguousarray(feed[each], types[each])
            context.set_input_shape(each, array.shape)
            held[each] = onnxruntime.OrtValue.ortvalue_from_numpy(array, CUDA, 0)
        for each in (n for n in names if n not in inputs):
            shape = tuple(context.get_tensor_shape(each))
            held[each] = onnxruntime.OrtValue.ortvalue_from_shape_and_type(
                shape, types[each], CUDA, 0
            )
        for each, value in held.items():
            context.set_tensor_address(each, value.data_ptr())
        if not context.execute_async_v3(0):  # on the default stream, which the copies wait for
            raise ModelCommandFailed(f"{engine}: did not run")
        return {each: held[each].numpy() for each in names if each not in inputs}

    return Loaded(run)


def _graph(directory: Path, declared: Declaration, scratch: Path, wanted: Precision) -> Path:
    source = versions.graph_file(directory, declared)
    if wanted is Precision.FP32:
        return source
    made = scratch / f"{declared.name}.{wanted.value}.onnx"
    if not made.exists():
        precision.written(source, made, wanted)
    return made
