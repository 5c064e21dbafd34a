"""An ONNX Runtime session on the best provider that really loads, with threads for the cores.

Every version that has a graph carries a copy of this file, so that it is whole by itself wherever
it is served: `spillway models build` puts one there, `python models/build.py` those of models/.
"""

from __future__ import annotations

import contextlib
import io
import json
import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnxruntime as ort

TENSORRT, CUDA, CPU = (f"{name}ExecutionProvider" for name in ("Tensorrt", "CUDA", "CPU"))
BEST_FIRST = (TENSORRT, CUDA, CPU)
GRAPH = "model.onnx"
MOST_THREADS = 8  # of one session; measured on two cores, and no more is promised of more
# The fused node is slower than the two that it stands for: a batch in 8 bits took 1.4 times as long
# with it.
SLOWER = ["SkipLayerNormFusion"]
# Measured on an H200 (docs/how-to/gpu.md). TF32 moves answers by 1e-3, and by another amount in a
# batch of another size. cuDNN tries all of its algorithms again for every size of a batch.
ON_CUDA = {"use_tf32": "0", "cudnn_conv_algo_search": "HEURISTIC"}
METRIC = "spillway_model_provider"
MEANING = "1: the model runs on this provider of ONNX Runtime"

Arrays = dict[str, npt.NDArray[np.generic]]
Shapes = Mapping[str, Sequence[Sequence[int]]]  # of each input: the least, the usual, the largest

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SessionConfig:
    """What a model's config asks of its session."""

    graph: str = GRAPH  # on the CPU
    threads: int | None = None  # of this session; None: its share of the cores
    instances: int = 1
    device: int = 0

    @classmethod
    def from_arguments(cls, args: Mapping[str, str]) -> SessionConfig:
        """`args`: what Triton's Python backend gives to `initialize`."""
        config = json.loads(args["model_config"])
        parameters = {k: v["string_value"] for k, v in config.get("parameters", {}).items()}
        instances = sum(group.get("count", 1) for group in config.get("instance_group", []))
        on_gpu = args.get("model_instance_kind") == "GPU"
        return cls(
            graph=parameters.get("graph", GRAPH),
            threads=int(parameters["threads"]) if "threads" in parameters else None,
            instances=max(1, instances),
            device=int(args.get("model_instance_device_id", 0)) if on_gpu else 0,
        )


class OrtSession:
    """Runs a graph. `provider` is what it really runs on, whatever was asked for."""

    def __init__(
        self,
        directory: Path,
        wanted: SessionConfig | None = None,
        *,
        most_threads: int = MOST_THREADS,
        shapes: Shapes | None = None,
    ) -> None:
        """`most_threads`: what the model has work for. `shapes`: without them TensorRT is not
        tried, since it builds a new engine for every shape that it has not seen."""
        wanted = wanted or SessionConfig()
        self.threads = wanted.threads or threads(usable_cores(), wanted.instances, most_threads)
        options = ort.SessionOptions()
        options.intra_op_num_threads = self.threads
        options.inter_op_num_threads = 1
        # Threads that spin while they wait take the processor from the server beside them.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        options.log_severity_level = 4  # its messages name values of inputs
        tried = candidates(ort.get_available_providers(), shapes is not None)
        if tried[0] != CPU:
            preload()
        self.session, self.provider, self.graph = best(directory, wanted, options, shapes, tried)
        self._outputs = [output.name for output in self.session.get_outputs()]

    def run(self, feeds: Arrays) -> Arrays:
        """Contiguous arrays are read where they are: binding them first saves nothing
        (docs/decisions/012-models-and-registries.md)."""
        return dict(zip(self._outputs, self.session.run(self._outputs, feeds), strict=True))


def best(
    directory: Path,
    wanted: SessionConfig,
    options: ort.SessionOptions,
    shapes: Shapes | None,
    tried: Sequence[str],
) -> tuple[ort.InferenceSession, str, str]:
    """Tries the providers in turn. ONNX Runtime falls back to the CPU in silence where a library
    or a device is missing, so what counts is what the session says that it has."""
    for provider in tried:
        graph = graph_for(provider, directory, wanted.graph)
        providers = [(provider, settings(provider, wanted.device, shapes)), (CPU, {})]
        try:
            session = ort.InferenceSession(
                str(directory / graph),
                options,
                providers=providers[: 1 if provider == CPU else 2],
                disabled_optimizers=SLOWER if provider == CPU else None,
            )
        except Exception as error:  # the pybind errors have no base; CPU is last
            if provider == CPU:
                raise
            log.warning("%s cannot take %s: %s", provider, graph, type(error).__name__)
            continue
        if session.get_providers()[0] == provider:
            return session, provider, graph
    raise RuntimeError("this ONNX Runtime has no CPUExecutionProvider; install it again")


def candidates(available: Sequence[str], engines: bool) -> list[str]:
    """The providers to try, the best first. What has no device is not even tried: that costs a
    second and an error in the log."""
    usable = [p for p in BEST_FIRST if p in available and (p == CPU or has_gpu())]
    return [p for p in usable if engines or p != TENSORRT]


def preload() -> None:
    """CUDA's libraries, where pip packages brought them beside ONNX Runtime: the loader does not
    look there. What is on the loader's path is found without it; what is nowhere is logged."""
    if not hasattr(ort, "preload_dlls"):  # before 1.21
        return
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        ort.preload_dlls()
    for line in printed.getvalue().splitlines():
        log.warning("%s", line)


def has_gpu() -> bool:
    return Path("/dev/nvidiactl").exists()


def graph_for(provider: str, directory: Path, on_cpu: str) -> str:
    """Graphs in 8 bits are for the CPU; where a GPU runs, the one in full precision is quicker and
    is the reference besides."""
    return GRAPH if provider != CPU and (directory / GRAPH).exists() else on_cpu


def settings(provider: str, device: int, shapes: Shapes | None) -> dict[str, Any]:
    if provider == CPU:
        return {}
    if provider == CUDA or shapes is None:
        return {"device_id": device} | ON_CUDA
    sides = [
        ",".join(f"{name}:{'x'.join(map(str, sizes[at]))}" for name, sizes in shapes.items())
        for at in range(3)
    ]
    return {
        "device_id": device,
        "trt_profile_min_shapes": sides[0],
        "trt_profile_opt_shapes": sides[1],
        "trt_profile_max_shapes": sides[2],
    }


def threads(cores: int, instances: int, most: int) -> int:
    """A session's share of the cores, and no more than it has work for."""
    return max(1, min(most, cores // instances))


def usable_cores() -> int:
    """Those that this process may run on, and no more than its container may use."""
    cores = len(os.sched_getaffinity(0))
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text().split()
        return cores if quota == "max" else max(1, min(cores, int(quota) // int(period)))
    except (OSError, ValueError):  # no cgroup of the second version
        return cores


def report(backend: Any, args: Mapping[str, str], session: OrtSession) -> object:
    """Says which provider it is in Triton's log and in its metrics, which the gateway reads.
    `backend`: Triton's module; what this returns must live as long as the model."""
    name, version = args["model_name"], args["model_version"]
    backend.Logger.log_info(
        f"{name} {version} runs {session.graph} on {session.provider}, {session.threads} threads"
    )
    family = backend.MetricFamily(name=METRIC, description=MEANING, kind=backend.MetricFamily.GAUGE)
    metric = family.Metric(
        labels={
            "model": name,
            "version": version,
            "provider": session.provider,
            "graph": session.graph,
            "threads": str(session.threads),
        }
    )
    metric.set(1)
    return family, metric


def decoded(texts: npt.NDArray[Any]) -> list[str]:
    """The strings of a tensor, of their bytes. Raises ValueError, which quotes nothing, as errors
    end up in logs: Python's own message would quote the text."""
    try:
        return [t.decode("utf-8") if isinstance(t, bytes) else str(t) for t in texts.ravel()]
    except UnicodeDecodeError:
        raise ValueError("text must be UTF-8") from None
