"""What a Triton server is asked when it comes up: which models it has and how it batches them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from google.protobuf.message import DecodeError
from tritonclient.grpc import service_pb2
from tritonclient.grpc.model_config_pb2 import DataType, ModelConfig

from gateway.config.endpoint_kinds import KINDS
from gateway.config.model_catalog import Catalog, CatalogModel, TensorNames
from gateway.core import ambient
from gateway.core.deadline import Clock
from gateway.core.errors import GatewayError
from gateway.core.types import ServedModel, endpoint_name
from gateway.endpoints.batch_rows.rows import Input, JointLimit, Rows, RowVerdict, ServerNotReady
from gateway.endpoints.connectors import Inspector
from gateway.endpoints.state import EndpointState
from gateway.endpoints.triton.repository import CACHED, stalling_options
from gateway.scheduling.executions import Execution

if TYPE_CHECKING:
    from gateway.endpoints.batch_rows.row_trials import RowTrials

log = logging.getLogger(__name__)
_TIMEOUT_S = 5.0


@dataclass(frozen=True, slots=True)
class _Rows:
    """What a server says of a model's batches: whether it may join calls into them, what a row is
    made of (None: it has none of its own), and how many it joins at the most."""

    joined: bool
    inputs: Sequence[Input] | None
    largest: int
    config: bytes


class ServerCensus:
    """Fills in what the settings leave open. Undeclared models join only from on-prem servers."""

    def __init__(
        self,
        catalog: Catalog,
        undeclared: bool,
        learnt: Callable[[str, str, Execution], None],
        clock: Clock = ambient.monotonic_s,
    ) -> None:
        """`learnt` is told, for a model and an endpoint, how that is executed there."""
        self._catalog = catalog
        self._undeclared = undeclared
        self._learnt = learnt
        self._clock = clock
        self._known_trials: RowTrials | None = None
        self._executions: set[tuple[str, str]] = set()  # of which endpoints, models it was told

    async def __call__(self, name: str, state: EndpointState) -> bool:
        """Whether all is known of it, or never will be. Raises GatewayError."""
        for gone in state.unbatched.keys() - self._catalog.endpoints[name].models.keys():
            del state.unbatched[gone]
        self._hold_apart(name, state)  # guard: E4.untried-server
        if state.inspector is None:
            return True
        if not KINDS[state.settings.kind].extensions:
            tried = await self._try_rows(name, state, state.inspector)
            return await self._read_tensors(name, state.inspector) and tried
        onprem = state.settings.zone.onprem
        if self._undeclared and onprem and name == endpoint_name(name):
            self._catalog.add_undeclared(name, await self._models(state.inspector))
            self._hold_apart(name, state)
        tried = True
        for model, served in self._catalog.endpoints[name].models.items():
            try:
                config = await self._config(state.inspector, served.model)
            except GatewayError as exc:
                log.warning("%s: no config of %s: %s", name, model, exc.reason)
                continue
            rows = _config_rows(config)
            tried &= await self._report_rows(name, state, model, rows, _execution(config))
            self._report_tensors(name, model, config.input, config.output)
        return tried and not self._unknown(name)

    def _hold_apart(self, name: str, state: EndpointState) -> None:
        """Until its server has told how it executes a model, and was tried, calls that it could
        join go there one at a time."""
        if not state.settings.zone.onprem or KINDS[state.settings.kind].batches:
            return
        for model in self._catalog.endpoints[name].models:
            declared = self._catalog.models.get(model)
            if declared is None or (name, model) in self._executions or declared.rows_independent:
                continue
            if KINDS[state.settings.kind].extensions or _may_join(declared):
                why = "its server has not told what it takes"
                state.unbatched.setdefault(model, RowVerdict(Rows.UNTRIED, why))
                state.joint_limits.pop(model, None)
                self._learnt(model, name, Execution(apart=True))

    async def _try_rows(self, name: str, state: EndpointState, inspector: Inspector) -> bool:
        """Of models that the settings say are executed in batches."""
        tried = True
        for model, served in self._catalog.endpoints[name].models.items():
            declared = self._catalog.models.get(model)
            if not state.settings.zone.onprem or declared is None:
                continue
            if KINDS[state.settings.kind].batches or not _may_join(declared):
                continue
            metadata = await self._metadata(name, inspector, model, served)
            if metadata is None:
                tried = False
                continue
            batched = all(i.shape and i.shape[0] < 0 for i in metadata.inputs)
            inputs = [Input(i.name, i.datatype, tuple(i.shape)[1:]) for i in metadata.inputs]
            rows = _Rows(True, inputs if batched else [], declared.max_batch, b"")
            tried &= await self._report_rows(
                name, state, model, rows, Execution(declared.max_batch)
            )
        return tried

    async def _report_rows(
        self, name: str, state: EndpointState, model: str, rows: _Rows, execution: Execution
    ) -> bool:
        """How the server executes the model, and whether it may join calls. False: it is to be
        asked again."""
        verdict, final = await self._verdict(name, state, model, rows)
        self._executions.add((name, model))
        apart = verdict is not None and verdict.rows is not Rows.INDEPENDENT
        self._learnt(model, name, replace(execution, apart=apart))
        state.joint_limits.pop(model, None)
        if verdict is not None and not apart:  # guard: E5.tried-rows always
            declared = self._catalog.models.get(model)
            tenants_apart = declared is not None and declared.tenants_apart
            state.joint_limits[model] = JointLimit(rows.largest, tenants_apart)
        before = state.unbatched.pop(model, None)
        if verdict is not None and apart:
            state.unbatched[model] = verdict
            if verdict != before:
                self._say_unbatched(name, model, verdict)
        return final

    async def _verdict(
        self, name: str, state: EndpointState, model: str, rows: _Rows
    ) -> tuple[RowVerdict | None, bool]:
        declared = self._catalog.models.get(model)
        if declared is None or not state.settings.zone.onprem:
            return None, True
        if not rows.joined and declared.rows_independent is not False:
            return None, True
        served = self._catalog.endpoints[name].models[model]
        assert state.inspector is not None
        try:
            question = service_pb2.ModelMetadataRequest(name=served.model, version=served.version)
            answer = await state.inspector.grpc(
                "ModelMetadata", question.SerializeToString(), _TIMEOUT_S
            )  # which versions there are
            there = service_pb2.ModelMetadataResponse.FromString(answer).versions
            # guard: E4.split-versions [v for v in served.versions if v in there] -> []
            for version in [v for v in served.versions if v in there] or [served.version]:
                verdict = await self._trials.verdict(
                    state, declared, replace(served, version=version, versions={}), rows.inputs,
                    rows.largest, rows.config + answer,
                )  # fmt: skip
                if verdict.rows is not Rows.INDEPENDENT:
                    break
        except (GatewayError, ServerNotReady, DecodeError) as exc:
            why = str(exc) if isinstance(exc, ServerNotReady) else failure_reason(exc)
            return RowVerdict(Rows.UNTRIED, why), False
        return verdict, True

    @property
    def _trials(self) -> RowTrials:
        # numpy, which only servers that join calls need
        from gateway.endpoints.batch_rows.row_trials import RowTrials

        self._known_trials = self._known_trials or RowTrials(self._clock)
        return self._known_trials

    def _say_unbatched(self, name: str, model: str, verdict: RowVerdict) -> None:
        declared = self._catalog.models.get(model)
        grave = verdict.rows is Rows.COUPLED or (declared is not None and declared.declared)
        log.log(
            logging.WARNING if grave else logging.INFO,
            "%s: one call at a time goes to %s, which the server would join into batches; its rows "
            "are %s", name, model, str(verdict),
        )  # fmt: skip

    async def _metadata(
        self, name: str, inspector: Inspector, model: str, served: ServedModel
    ) -> Any | None:
        question = service_pb2.ModelMetadataRequest(name=served.model, version=served.version)
        try:
            raw = await inspector.grpc("ModelMetadata", question.SerializeToString(), _TIMEOUT_S)
            return service_pb2.ModelMetadataResponse.FromString(raw)
        except (GatewayError, DecodeError) as exc:
            log.warning("%s: no metadata of %s: %s", name, model, failure_reason(exc))
        return None

    async def _read_tensors(self, name: str, inspector: Inspector) -> bool:
        """Of models whose calls may leave for what their tensors are declared to be."""
        for model, served in self._unknown(name):
            metadata = await self._metadata(name, inspector, model, served)
            if metadata is not None:
                self._report_tensors(name, model, metadata.inputs, metadata.outputs)
        return not self._unknown(name)

    def _report_tensors(self, name: str, model: str, inputs: Any, outputs: Any) -> None:
        """A server that names none says nothing of them."""
        if not inputs:
            return
        names = TensorNames(
            frozenset(tensor.name for tensor in inputs),
            frozenset(tensor.name for tensor in outputs) if outputs else None,
        )
        self._catalog.learn_tensors(name, model, names)

    def _unknown(self, name: str) -> list[tuple[str, ServedModel]]:
        catalog = self._catalog
        return [
            (model, served)
            for model, served in catalog.endpoints[name].models.items()
            if (declared := catalog.models.get(model)) is not None
            and declared.tensors_clear
            and not declared.inputs
            and not catalog.knows_tensors(name, model)
        ]

    async def _models(self, inspector: Inspector) -> list[str]:
        raw = await inspector.grpc(
            "RepositoryIndex",
            service_pb2.RepositoryIndexRequest(ready=True).SerializeToString(),
            _TIMEOUT_S,
        )
        index = service_pb2.RepositoryIndexResponse.FromString(raw)
        return [m.name for m in index.models]

    async def _config(self, inspector: Inspector, model: str) -> ModelConfig:
        raw = await inspector.grpc(
            "ModelConfig",
            service_pb2.ModelConfigRequest(name=model).SerializeToString(),
            _TIMEOUT_S,
        )
        config: ModelConfig = service_pb2.ModelConfigResponse.FromString(raw).config
        if stalling := stalling_options(config.dynamic_batching):
            log.warning(
                "%s: its dynamic_batching has %s, with which Triton can stall (server#8870)",
                model, ", ".join(sorted(stalling)),
            )  # fmt: skip
        if config.response_cache.enable:
            log.warning("%s: its %s", model, CACHED)
        return config


def _config_rows(config: ModelConfig) -> _Rows:
    return _Rows(
        joined=_joins_calls(config),
        inputs=None if config.HasField("sequence_batching") else _inputs(config),
        largest=config.max_batch_size,
        config=config.SerializeToString(deterministic=True),
    )


def _joins_calls(config: ModelConfig) -> bool:
    """Whether Triton puts rows of several calls into one execution of this model, or may: what an
    ensemble's models do is their own affair. A model that streams is not asked: its calls end on
    their own, and servers of generators keep them apart."""
    if config.max_batch_size < 2 or config.model_transaction_policy.decoupled:
        return False
    batchers = ("dynamic_batching", "sequence_batching", "ensemble_scheduling")
    return any(config.HasField(name) for name in batchers)


def _inputs(config: ModelConfig) -> list[Input]:
    """Those that are not optional."""
    inputs = []
    for given in config.input:
        if not given.optional:
            name = DataType.Name(given.data_type).removeprefix("TYPE_")
            datatype = "BYTES" if name == "STRING" else name
            inputs.append(Input(given.name, datatype, tuple(given.dims)))
    return inputs


def _may_join(declared: CatalogModel) -> bool:
    """Whether a server that does not say it could join calls, by what the settings say."""
    return declared.max_batch > 1 or declared.rows_independent is False


def failure_reason(exc: Exception) -> str:
    return exc.reason if isinstance(exc, GatewayError) else "it is none of the protocol"


def _execution(config: ModelConfig) -> Execution:
    """Instances are counted for each device of a group, as Triton starts them."""
    instances = sum(max(1, g.count) * max(1, len(g.gpus)) for g in config.instance_group)
    return Execution(
        rows=max(1, config.max_batch_size),
        instances=max(1, instances),
        one_by_one=config.model_transaction_policy.decoupled,
    )
