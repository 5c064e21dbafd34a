"""The models that the cloud serves: the same directories, weights and code as on the premises."""

import asyncio
import dataclasses
import importlib.util
import logging
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Protocol, TypeVar, cast

from google.protobuf import text_format
from tritonclient.grpc import model_config_pb2

from gateway.demo.cloud.errors import InvalidRequest, Overloaded, ProviderError, UnservedModel
from gateway.demo.cloud.tensors import Array

log = logging.getLogger("simulated_cloud")
Result = TypeVar("Result")

_THREADS = 2
_MOST_WAITING = 256


class TensorRuntime(Protocol):
    def execute(self, inputs: dict[str, Array]) -> dict[str, Array]: ...


class TextRuntime(Protocol):
    def generate(self, prompt: str, max_tokens: int, seed: int) -> Iterator[str]: ...


@dataclasses.dataclass(frozen=True, slots=True)
class TensorSpec:
    name: str
    datatype: str
    shape: tuple[int, ...]  # with the batch axis, -1 where it is free
    optional: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class SimulatedModel:
    name: str
    config: Any  # a protobuf ModelConfig, whose module is untyped
    runtime: object

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        return self._specs(self.config.input)

    @property
    def outputs(self) -> tuple[TensorSpec, ...]:
        return self._specs(self.config.output)

    @property
    def platform(self) -> str:
        return str(self.config.platform or self.config.backend or "python")

    @property
    def decoupled(self) -> bool:
        return bool(self.config.model_transaction_policy.decoupled)

    @property
    def generates_text(self) -> bool:
        return hasattr(self.runtime, "generate")

    @property
    def embeds_text(self) -> bool:
        outputs = {spec.name for spec in self.outputs}
        return [spec.datatype for spec in self.inputs] == ["BYTES"] and "embedding" in outputs

    def _specs(self, tensors: Sequence[Any]) -> tuple[TensorSpec, ...]:
        batch = (-1,) if self.config.max_batch_size > 0 else ()
        return tuple(
            TensorSpec(
                tensor.name,
                _datatype(tensor.data_type),
                (*batch, *tensor.dims),
                bool(getattr(tensor, "optional", False)),
            )
            for tensor in tensors
        )


class Simple:
    """Triton's add/sub model, which its client's examples use."""

    def execute(self, inputs: dict[str, Array]) -> dict[str, Array]:
        left, right = inputs["INPUT0"], inputs["INPUT1"]
        return {"OUTPUT0": left + right, "OUTPUT1": left - right}


_SIMPLE = """
name: "simple" backend: "python" max_batch_size: 8
input { name: "INPUT0" data_type: TYPE_INT32 dims: 16 }
input { name: "INPUT1" data_type: TYPE_INT32 dims: 16 }
output { name: "OUTPUT0" data_type: TYPE_INT32 dims: 16 }
output { name: "OUTPUT1" data_type: TYPE_INT32 dims: 16 }
"""


class ModelStore:
    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._loaded: dict[str, SimulatedModel] = {
            "simple": SimulatedModel("simple", _parsed(_SIMPLE), Simple())
        }
        self._loading = threading.Lock()
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="model")
        self._waiting = 0

    async def load_all(self) -> None:
        for runtime in sorted(self._directory.glob("*/1/runtime.py")):
            try:
                await self.get(runtime.parent.parent.name)
            except UnservedModel:
                continue  # said in the log; it may be built later, and is looked for at each call

    def served(self) -> Mapping[str, SimulatedModel]:
        return self._loaded

    async def get(self, name: str) -> SimulatedModel:
        model = self._loaded.get(name)
        if model is None:
            model = await self.run(self._load, name)
        return model

    async def run(self, work: Callable[..., Result], *args: object) -> Result:
        """Never on the loop: an inference takes milliseconds. Bounded: nobody waits forever."""
        if self._waiting >= _MOST_WAITING:
            raise Overloaded("The engine is currently overloaded, please try again later.")
        self._waiting += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, work, *args)
        finally:
            self._waiting -= 1

    async def execute(self, model: SimulatedModel, inputs: dict[str, Array]) -> dict[str, Array]:
        check(model, inputs)
        runtime = cast(TensorRuntime, model.runtime)
        try:
            return await self.run(runtime.execute, inputs)
        except ProviderError:
            raise
        except ValueError as exc:
            raise InvalidRequest(f"model '{model.name}': {exc}") from exc
        except Exception as exc:  # the model's own code: what it raises is the provider's 500
            log.exception("model %s failed", model.name)
            raise ProviderError(f"inference on model '{model.name}' failed") from exc

    async def generate(
        self, model: SimulatedModel, prompt: str, max_tokens: int, seed: int
    ) -> list[str]:
        runtime = cast(TextRuntime, model.runtime)
        return await self.run(lambda: list(runtime.generate(prompt, max_tokens, seed)))

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _load(self, name: str) -> SimulatedModel:
        with self._loading:
            if name in self._loaded:
                return self._loaded[name]
            known = {
                path.name: path for path in self._directory.iterdir()
            }  # names never build paths
            directory = known.get(name)
            if directory is None:
                raise UnservedModel(name)
            try:
                config = _parsed((directory / "config.pbtxt").read_text(encoding="utf-8"))
                model = SimulatedModel(name, config, _runtime(name, directory / "1"))
            except Exception as exc:  # an unbuilt or broken model is one that is not served
                log.warning("model %s cannot be served: %r", name, exc)
                raise UnservedModel(name) from exc
            self._loaded[name] = model
            return model


def check(model: SimulatedModel, inputs: Mapping[str, Array]) -> None:
    specs = {spec.name: spec for spec in model.inputs}
    for name, array in inputs.items():
        spec = specs.get(name)
        if spec is None:
            raise InvalidRequest(f"unexpected inference input '{name}' for model '{model.name}'")
        fits = len(array.shape) == len(spec.shape) and all(
            wanted in (-1, got) for wanted, got in zip(spec.shape, array.shape, strict=True)
        )
        if not fits:
            raise InvalidRequest(
                f"unexpected shape for input '{name}' for model '{model.name}'. "
                f"Expected {list(spec.shape)}, got {list(array.shape)}"
            )
    missing = [
        spec.name for spec in specs.values() if not spec.optional and spec.name not in inputs
    ]
    if missing:
        raise InvalidRequest(f"missing inputs for model '{model.name}': {', '.join(missing)}")


def checked_datatype(model: SimulatedModel, name: str, datatype: str) -> str:
    for spec in model.inputs:
        if spec.name == name and spec.datatype != datatype:
            raise InvalidRequest(
                f"inference input '{name}' data-type is '{datatype}', but model '{model.name}' "
                f"expects '{spec.datatype}'"
            )
    return datatype


def _runtime(name: str, directory: Path) -> object:
    path = directory / "runtime.py"
    module_name = f"simulated_cloud_model_{name}"
    spec = importlib.util.spec_from_file_location(module_name, path)
    if spec is None or spec.loader is None or not path.exists():
        raise FileNotFoundError(path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[module_name] = module  # dataclasses look their own module up
    sys.path.append(str(directory))  # what it imports lies beside it, as in Triton
    spec.loader.exec_module(module)
    runtime: object = module.Runtime(directory)
    return runtime


def _parsed(text: str) -> Any:
    return text_format.Parse(text, model_config_pb2.ModelConfig())


def _datatype(number: int) -> str:
    name: str = model_config_pb2.DataType.Name(number)
    return "BYTES" if name == "TYPE_STRING" else name.removeprefix("TYPE_")
