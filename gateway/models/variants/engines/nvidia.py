"""Engines of TensorRT and of TensorRT for RTX, which share one Python interface.

Networks are strongly typed: an engine has the precision of the graph that it is built from. The
RTX builder needs no GPU and compiles for the families that it names (8.0 to 8.9 and 12 as of
1.7.1, so not for data centre Hopper and Blackwell cards: on an H200 its runtime refuses the engine
and says that it cannot be built for 9.0); TensorRT builds on the card itself.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from gateway.models.failures import ModelCommandFailed, WrongModel
from gateway.models.variants.engines import Built, Loaded, Shape, ShapeProfile

_EXTRAS = {"tensorrt": "tensorrt", "tensorrt_rtx": "tensorrt-rtx"}
_SUFFIXES = {"tensorrt": ".plan", "tensorrt_rtx": ".rtx"}


class NvidiaBuilder:
    def __init__(self, module: Literal["tensorrt", "tensorrt_rtx"]) -> None:
        self.name: str = module
        self.suffix = _SUFFIXES[module]
        self._trt: Any = None

    def missing(self) -> str | None:
        if importlib.util.find_spec(self.name) is None:
            extra = _EXTRAS[self.name]
            return f"{self.name} is not installed; pip install 'spillway-gateway[{extra}]'"
        return None

    def build(self, graph: Path, profiles: Mapping[str, ShapeProfile], into: Path) -> Built:
        trt, logger = self._loaded()
        builder = trt.Builder(logger)
        if builder is None:
            raise ModelCommandFailed(f"{self.name} does not start here: {logger.last}")
        typed = 1 << int(trt.NetworkDefinitionCreationFlag.STRONGLY_TYPED)
        network = builder.create_network(typed)
        parser = trt.OnnxParser(network, logger)
        if not parser.parse(graph.read_bytes(), str(graph)):  # beside which its weights may stand
            errors = dict.fromkeys(parser.get_error(at).desc() for at in range(parser.num_errors))
            raise WrongModel(f"{graph}: {self.name} cannot compile it: {'; '.join(errors)}")
        options = builder.create_builder_config()
        declared = builder.create_optimization_profile()
        for name, profile in profiles.items():
            declared.set_shape(name, profile.smallest, profile.usual, profile.largest)
        if options.add_optimization_profile(declared) < 0:
            raise WrongModel(f"{graph}: {self.name} refuses the declared ranges: {logger.last}")
        engine = builder.build_serialized_network(network, options)
        if engine is None:
            raise WrongModel(f"{graph}: {self.name} cannot compile it: {logger.last}")
        into.write_bytes(memoryview(engine))
        taken = {name: _profile(declared.get_shape(name)) for name in profiles}
        return Built(into, self.name, str(trt.__version__), taken)

    def load(self, engine: Path) -> Loaded:
        """Whether the engine is one, and opens on this machine's card with its profiles. Without a
        card only its header can be read, which tells another release and what is no engine. What
        it answers is compared by its server's canary: nothing here runs on a card."""
        trt, logger = self._loaded()
        runtime = trt.Runtime(logger)
        held = engine.read_bytes()
        if (foreign := _foreign(trt, runtime, held)) is not None:
            raise WrongModel(f"{engine}: {self.name} says: {foreign}; build it again")
        if not _has_card():
            return Loaded(why_not="its header is right; no GPU here to open it on")
        opened = runtime.deserialize_cuda_engine(held)
        if opened is None:
            return Loaded(why_not=f"it does not open on this card: {logger.last}")
        profiles = "; ".join(f"{name} {p}" for name, p in _read_profiles(trt, opened).items())
        return Loaded(why_not=f"it opens on this card, with {profiles}")

    def profiles(self, engine: Path) -> Mapping[str, ShapeProfile]:
        """As the opened engine reports them; needs a card."""
        trt, logger = self._loaded()
        opened = trt.Runtime(logger).deserialize_cuda_engine(engine.read_bytes())
        if opened is None:
            raise ModelCommandFailed(f"{engine}: does not open on this card: {logger.last}")
        return _read_profiles(trt, opened)

    def _loaded(self) -> tuple[Any, Any]:
        if (missing := self.missing()) is not None:
            raise ModelCommandFailed(missing)
        trt = importlib.import_module(self.name)
        return trt, quiet_logger(trt)


def _foreign(trt: Any, runtime: Any, held: bytes) -> str | None:
    if not hasattr(runtime, "get_engine_validity"):
        return None  # TensorRT's own runtime says it when it opens
    _, reasons = runtime.get_engine_validity(held)
    for name in ("MALFORMED_ENGINE", "VERSION_MISMATCH"):
        if int(reasons) & int(getattr(trt.EngineInvalidityDiagnostics, name)):
            return name.lower().replace("_", " ")
    return None


def _read_profiles(trt: Any, opened: Any) -> Mapping[str, ShapeProfile]:
    names = [opened.get_tensor_name(at) for at in range(opened.num_io_tensors)]
    inputs = [n for n in names if opened.get_tensor_mode(n) == trt.TensorIOMode.INPUT]
    return {name: _profile(opened.get_tensor_profile_shape(name, 0)) for name in inputs}


def quiet_logger(trt: Any) -> Any:
    """Keeps the last complaint, for the message of whoever fails; prints nothing."""

    class TensorRtLog(trt.ILogger):  # type: ignore[misc]
        def __init__(self) -> None:
            trt.ILogger.__init__(self)
            self.last = "it does not say why"

        def log(self, severity: Any, message: str) -> None:
            if severity <= trt.ILogger.Severity.ERROR:
                self.last = message

    return TensorRtLog()


def _profile(shapes: Any) -> ShapeProfile:
    smallest, usual, largest = (_shape(shape) for shape in shapes)
    return ShapeProfile(smallest, usual, largest)


def _shape(shape: Any) -> Shape:
    return tuple(int(size) for size in shape)


def _has_card() -> bool:
    return Path("/dev/nvidiactl").exists()
