"""Tries on a server whether rows of one batch of a model influence each other (`models.row_trial`).

A server that joins calls into batches is tried before its first call: the rows are the gateway's
own, made of the model's tensors alone, and hold nothing of any caller. Until a trial has passed,
and where none can be made, one call at a time goes to the model.
"""

from __future__ import annotations

import asyncio
import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from gateway.config.model_catalog import CatalogModel
from gateway.core.deadline import Clock, Deadline
from gateway.core.errors import (
    DeadlineExceeded,
    GatewayError,
    ModelDead,
    UpstreamBusy,
    UpstreamFailed,
    UpstreamSilent,
    UpstreamUnreachable,
)
from gateway.core.reply import GrpcMessage
from gateway.core.types import InferenceRequest, ServedModel, Tensor, TensorCall, WireProtocol
from gateway.endpoints.batch_rows import row_trial
from gateway.endpoints.batch_rows.row_trial import Batch, Trial
from gateway.endpoints.batch_rows.rows import Input, Rows, RowVerdict, ServerNotReady
from gateway.endpoints.state import EndpointState, TriedRows
from gateway.protocols.oip.datatypes import DATATYPES, join, split
from gateway.protocols.oip.grpc import decode_response

_SEED = 20261130
_ONE_S = 5.0  # for an answer
_MODEL_S = 10.0  # for all of a model's
_FREE = 8  # of an axis that nothing bounds
_FREE_DIMS = 32  # as of a picture's
_MOST_BYTES = 16 << 20  # of a batch
_PASSING = (UpstreamBusy, UpstreamUnreachable, UpstreamSilent, ModelDead)
"""What says nothing of the rows: the server is to be tried again."""

Array = npt.NDArray[Any]


class TooSlow(Exception):
    """A trial takes longer than may be waited for; the message says what of it."""


class RowTrials:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._ids = itertools.count(1)

    async def verdict(
        self,
        state: EndpointState,
        declared: CatalogModel,
        served: ServedModel,
        inputs: Sequence[Input] | None,
        largest: int,
        version: bytes,
    ) -> RowVerdict:
        """Of a model that the server executes in batches. `inputs`: None where no rows of the
        gateway's own can be sent. `largest`: rows of its largest batch. `version`: what the server
        says of the model; the same words as at the last trial, and that one counts. Raises NotNow.
        """
        if declared.rows_independent is not None:
            known = Rows.INDEPENDENT if declared.rows_independent else Rows.COUPLED
            return RowVerdict(known, "the settings say so")
        key = (served.model, served.version)
        before = state.rows.get(key)
        if before is not None and before.version == version:  # guard: E4.version-retrial minus 2
            return before.verdict
        try:
            verdict = await self._tried(state, declared, served, inputs, largest)
        except TooSlow as exc:  # a server that starts anew is tried anew
            return RowVerdict(Rows.UNTRIED, str(exc))
        state.rows[key] = TriedRows(version, verdict)
        return verdict

    async def _tried(
        self,
        state: EndpointState,
        declared: CatalogModel,
        served: ServedModel,
        inputs: Sequence[Input] | None,
        largest: int,
    ) -> RowVerdict:
        if not declared.canary:  # guard: E4.trial-permission
            why = "canary: false" if declared.declared else "the settings do not name it"
            return RowVerdict(Rows.UNTRIED, f"no inference of the gateway's own may be sent: {why}")
        if state.settings.canary is False or state.onprem is None:
            why = "canary: false at its endpoint"
            return RowVerdict(Rows.UNTRIED, f"no inference of the gateway's own may be sent: {why}")
        if inputs is None:
            return RowVerdict(Rows.UNTRIED, "its calls are parts of sequences")
        if any(given.datatype not in DATATYPES for given in inputs) or not inputs:
            return RowVerdict(Rows.UNTRIED, "its inputs are of no known datatype")
        size = _row_bytes(inputs)
        if 2 * size > _MOST_BYTES:
            return RowVerdict(Rows.UNTRIED, f"a row has {size >> 20} MiB")
        if state.model_states[declared.name].in_flight:  # guard: E4.idle-trial
            raise ServerNotReady("callers have calls there")
        largest = min(largest, _MOST_BYTES // size)
        run = _Run(state, declared.name, served, {i.name: i.datatype for i in inputs}, self)
        return await run.driven(
            row_trial.trial(trial_rows(inputs), row_trial.concatenated, largest, run.tolerances)
        )

    def request(self, model: str, inputs: tuple[Tensor, ...], timeout_s: float) -> InferenceRequest:
        return InferenceRequest(
            id=f"rows-{next(self._ids)}",
            protocol=WireProtocol.KSERVE_GRPC,
            tenant="",
            model=model,
            payload=TensorCall(inputs),
            deadline=Deadline.after(timeout_s, self._clock),
            received_s=self._clock(),
        )

    @property
    def now_s(self) -> float:
        return self._clock()


class _Run:
    """One trial."""

    def __init__(
        self,
        state: EndpointState,
        model: str,
        served: ServedModel,
        datatypes: dict[str, str],
        trials: RowTrials,
    ) -> None:
        self._state, self._model, self._served = state, model, served
        self._datatypes = datatypes
        self._trials = trials
        self.tolerances: dict[str, float] = {}
        """Of outputs that are decoded into a wider type than they came in."""

    async def driven(self, trial: Trial) -> RowVerdict:
        end_s = self._trials.now_s + _MODEL_S
        batch = next(trial)
        while True:
            if self._trials.now_s > end_s:
                raise TooSlow(f"a trial takes longer than {_MODEL_S:g} s")
            answer = await self._answer(batch)
            try:
                batch = trial.send(answer)
            except StopIteration as end:
                verdict: RowVerdict = end.value
                return verdict

    async def _answer(self, batch: Batch) -> Batch | None:
        """None: the model refuses it. Raises NotNow or TooSlow."""
        tensors = tuple(
            encoded(name, self._datatypes[name], values) for name, values in batch.items()
        )
        request = self._trials.request(self._model, tensors, _ONE_S)
        met: GatewayError | TimeoutError
        try:
            async with asyncio.timeout(_ONE_S):
                return await self._outputs(request)
        except (GatewayError, TimeoutError) as exc:
            met = exc
        if isinstance(met, (TimeoutError, DeadlineExceeded)):
            raise TooSlow(f"an inference takes longer than {_ONE_S:g} s")
        if isinstance(met, _PASSING):
            raise ServerNotReady(met.reason)
        return None

    async def _outputs(self, request: InferenceRequest) -> Batch:
        assert self._state.onprem is not None
        stream = await self._state.onprem.infer(request, self._served)
        try:
            frame = await anext(stream, None)
        finally:
            await stream.aclose()
        if not isinstance(frame, GrpcMessage):
            raise UpstreamFailed("it answers no tensors")
        outputs = decode_response(frame).outputs
        for tensor in outputs:
            if tensor.datatype == "BF16":
                self.tolerances[tensor.name] = row_trial.HALF_PRECISION_TOLERANCE["BF16"]
        return {tensor.name: decoded(tensor) for tensor in outputs}


def trial_rows(inputs: Sequence[Input]) -> list[Batch]:
    generator = np.random.default_rng(_SEED)
    return [
        {given.name: _row(number, given, generator) for given in inputs}
        for number in range(row_trial.ROWS)
    ]


def _row(number: int, given: Input, generator: np.random.Generator) -> Array:
    shape = (1, *_sizes(given))
    values = row_trial.values(number, shape, _numpy(given.datatype), None, generator)
    free = [at for at, size in enumerate(given.dims, 1) if size < 0]
    return row_trial.padded(number, values, free)


def encoded(name: str, datatype: str, values: Array) -> Tensor:
    """Floats are the values of BF16, whose raw form is their upper half."""
    if datatype == "BYTES":
        data = join([bytes(value) for value in values.ravel()])
    elif datatype == "BF16":
        data = np.ascontiguousarray(values, "<f4").view("<u2").reshape(-1, 2)[:, 1].tobytes()
    else:
        data = np.ascontiguousarray(values, _numpy(datatype)).tobytes()
    return Tensor(name, datatype, values.shape, data)


def decoded(tensor: Tensor) -> Array:
    """BF16 as floats."""
    if tensor.datatype == "BYTES":
        held = split(bytes(tensor.data), math.prod(tensor.shape))
        strings = np.empty(len(held), object)
        strings[:] = held
        return np.reshape(strings, tensor.shape)
    if tensor.datatype == "BF16":
        halves = np.frombuffer(tensor.data, "<u2").astype("<u4") << 16
        return np.reshape(halves.view("<f4"), tensor.shape)
    return np.frombuffer(tensor.data, _numpy(tensor.datatype)).reshape(tensor.shape)


def _numpy(datatype: str) -> np.dtype[Any]:
    if datatype == "BYTES":
        return np.dtype(object)
    return np.dtype("<f4" if datatype == "BF16" else f"<{DATATYPES[datatype].code}")


def _sizes(given: Input) -> tuple[int, ...]:
    free = sum(size < 0 for size in given.dims)
    return tuple((_FREE if free == 1 else _FREE_DIMS) if size < 0 else size for size in given.dims)


def _row_bytes(inputs: Sequence[Input]) -> int:
    """About; at least 1."""
    return 1 + sum(math.prod(_sizes(i)) * (DATATYPES[i.datatype].size or 40) for i in inputs)
