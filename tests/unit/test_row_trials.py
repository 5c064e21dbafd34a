"""Models of servers that join calls are tried before their calls are joined."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from tritonclient.grpc import service_pb2
from tritonclient.grpc.model_config_pb2 import ModelConfig

from gateway.config.model_catalog import Catalog, CatalogModel
from gateway.core.errors import (
    DeadlineExceeded,
    GatewayError,
    ModelDead,
    ModelFailed,
    UpstreamBusy,
    UpstreamRefused,
    UpstreamUnreachable,
)
from gateway.core.reply import OneFrame
from gateway.core.types import Endpoint, InferenceRequest, ServedModel, TensorCall, Zone
from gateway.endpoints.batch_rows.row_trials import Array, decoded, encoded, trial_rows
from gateway.endpoints.batch_rows.rows import Input, JointLimit
from gateway.endpoints.model_discovery import ServerCensus
from gateway.protocols.oip.grpc import encode_response
from gateway.protocols.oip.reply import TensorReply
from gateway.scheduling.executions import Execution

pytestmark = pytest.mark.anyio

MODEL = "m"
Function = Callable[[Array], Array]


def config(**more: Any) -> ModelConfig:
    made = ModelConfig(name=MODEL, max_batch_size=8, **more)
    made.input.add(name="x", data_type="TYPE_FP32", dims=[3])
    made.output.add(name="y", data_type="TYPE_FP32", dims=[3])
    return made


def joining(**more: Any) -> ModelConfig:
    found = config(**more)
    found.dynamic_batching.SetInParent()
    return found


@dataclass
class Server:
    """Answers tensors by a function, and questions about the model; or meets what it is told."""

    config: ModelConfig = field(default_factory=joining)
    does: Function = lambda x: 2 * x
    kind: str = "triton"
    meets: GatewayError | None = None
    versions: Sequence[str] = ("1",)
    tells: bool = True
    gives: str = "FP32"
    takes_s: float = 0.0
    now_s: float = 0.0
    sizes: list[int] = field(default_factory=list)
    second: Function | None = None  # what version 2 does, where it is another
    tried: set[str] = field(default_factory=set)

    async def grpc(self, method: str, message: bytes, timeout_s: float) -> bytes:
        if not self.tells:
            raise UpstreamUnreachable("nobody")
        answer: Any
        if method == "ModelConfig":
            answer = service_pb2.ModelConfigResponse(config=self.config)
        else:
            answer = service_pb2.ModelMetadataResponse(name=MODEL, versions=self.versions)
            answer.inputs.add(name="x", datatype="FP32", shape=[-1, 3])
        return bytes(answer.SerializeToString())

    async def rest(self, path: str, timeout_s: float) -> Any:
        raise NotImplementedError

    async def infer(self, request: InferenceRequest, served: ServedModel) -> OneFrame:
        assert isinstance(request.payload, TensorCall)
        assert request.tenant == ""
        (given,) = request.payload.inputs
        self.sizes.append(given.shape[0])
        self.now_s += self.takes_s
        if self.meets is not None:
            raise self.meets
        self.tried.add(served.version)
        does = self.second if self.second and served.version == "2" else self.does
        found = does(decoded(given)).astype(np.float32)
        outputs = (encoded("y", self.gives, found),)
        return OneFrame(encode_response(TensorReply(MODEL, "1", outputs)))


@dataclass
class ModelState:
    in_flight: int = 0


class Place:
    def __init__(self, server: Server, zone: Zone, canary: bool | None) -> None:
        self.inspector = self.onprem = server
        self.settings = type("S", (), {"kind": server.kind, "zone": zone, "canary": canary})
        self.unbatched: dict[str, Any] = {}
        self.joint_limits: dict[str, Any] = {}
        self.rows: dict[Any, Any] = {}
        self.model_states = {MODEL: ModelState()}


class Site:
    """One endpoint with one model."""

    def __init__(self, server: Server, **declared: Any) -> None:
        told = {"canary": True, **declared}
        zone = told.pop("zone", Zone.ONPREM)
        served = ServedModel(MODEL, versions=told.pop("versions", {}))
        self.server = server
        self.place: Any = Place(server, zone, told.pop("endpoint_canary", None))
        self.catalog = Catalog(
            {MODEL: CatalogModel(MODEL, "infer", ("gpu",), **told)},
            {"gpu": Endpoint("gpu", zone, server.kind, {MODEL: served})},
        )
        self.learnt: list[Execution] = []
        self.anew()

    def anew(self) -> None:
        """As settings that are read again make it."""
        told, server = self.learnt, self.server
        self.census = ServerCensus(
            self.catalog, False, lambda *said: told.append(said[2]), lambda: server.now_s
        )

    async def look(self) -> bool:
        return await self.census("gpu", self.place)

    def apart(self) -> bool:
        return self.learnt[-1].apart

    @property
    def why(self) -> str:
        return str(self.place.unbatched.get(MODEL, ""))


def softmax(x: Array) -> Array:
    powers = np.exp(x - x.max(axis=0))
    found: Array = powers / powers.sum(axis=0)
    return found


async def test_a_model_is_apart_until_it_was_tried_and_together_from_then_on() -> None:
    site = Site(Server())
    assert await site.look()
    assert [told.apart for told in site.learnt] == [True, False]
    assert site.learnt[-1] == Execution(rows=8)
    assert site.place.unbatched == {}


async def test_calls_are_joined_where_rows_are_independent_alone() -> None:
    site = Site(Server())
    await site.look()
    assert site.place.joint_limits == {MODEL: JointLimit(8)}
    site = Site(Server(), tenants_apart=True)
    await site.look()
    assert site.place.joint_limits == {MODEL: JointLimit(8, tenants_apart=True)}
    site.server.does = softmax
    site.server.versions = ("2",)
    await site.look()
    assert site.place.joint_limits == {}


async def test_one_whose_rows_are_coupled_stays_apart_and_that_is_told(
    caplog: pytest.LogCaptureFixture,
) -> None:
    site = Site(Server(does=softmax))
    with caplog.at_level(logging.WARNING):
        assert await site.look()
        assert await site.look()
    assert [told.apart for told in site.learnt] == [True, True, True]
    assert site.why.startswith("coupled: output y is not the same")
    (line,) = (record.getMessage() for record in caplog.records)
    assert line.startswith("gpu: one call at a time goes to m, which the server would join")


@pytest.mark.parametrize("made", [config(), joining(model_transaction_policy={"decoupled": True})])
async def test_a_server_that_joins_no_calls_is_not_tried(made: ModelConfig) -> None:
    server = Server(made, softmax)
    site = Site(server)
    assert await site.look()
    assert not site.apart()
    assert server.sizes == []


async def test_a_batch_of_one_is_not_tried() -> None:
    made = joining()
    made.max_batch_size = 1
    site = Site(Server(made, softmax))
    assert await site.look()
    assert not site.apart()


async def test_an_ensemble_is_tried_as_a_whole() -> None:
    made = config()
    made.ensemble_scheduling.step.add(model_name="inner", model_version=-1)
    site = Site(Server(made, softmax))
    assert await site.look()
    assert site.apart()


async def test_sequences_cannot_be_tried() -> None:
    made = config()
    made.sequence_batching.max_sequence_idle_microseconds = 1
    server = Server(made)
    site = Site(server)
    assert await site.look()
    assert site.why == "untried: its calls are parts of sequences"
    assert site.apart()
    assert server.sizes == []


@pytest.mark.parametrize(
    "declared",
    [{"canary": False}, {"endpoint_canary": False}, {"declared": False, "canary": False}],
)
async def test_where_no_inference_of_our_own_may_be_sent_none_is(declared: dict[str, Any]) -> None:
    server = Server()
    site = Site(server, **declared)
    assert await site.look()
    assert site.why.startswith("untried: no inference of the gateway's own may be sent: ")
    assert site.apart()
    assert server.sizes == []


@pytest.mark.parametrize("word", [True, False])
async def test_the_operators_word_counts_before_a_trial(word: bool) -> None:
    server = Server(does=softmax if word else lambda x: 2 * x)
    site = Site(server, rows_independent=word)
    assert await site.look()
    assert site.apart() is not word
    assert server.sizes == []


@pytest.mark.parametrize(
    "met",
    [UpstreamBusy("429"), UpstreamUnreachable("broken"), ModelDead("gone")],
    ids=lambda one: type(one).__name__,
)
async def test_a_server_that_cannot_answer_now_is_tried_again_later(met: GatewayError) -> None:
    server = Server(meets=met)
    site = Site(server)
    assert not await site.look()
    assert site.apart()
    server.meets = None
    assert await site.look()
    assert not site.apart()


async def test_a_trial_does_not_run_beside_callers_calls() -> None:
    server = Server()
    site = Site(server)
    site.place.model_states[MODEL].in_flight = 1
    assert not await site.look()
    assert (site.apart(), server.sizes) == (True, [])
    site.place.model_states[MODEL].in_flight = 0
    assert await site.look()
    assert not site.apart()


async def test_a_model_that_answers_too_late_is_tried_when_its_server_starts_anew() -> None:
    server = Server(meets=DeadlineExceeded("late"))
    site = Site(server)
    assert await site.look()
    assert site.why == "untried: an inference takes longer than 5 s"
    server.meets = None
    assert await site.look()
    assert not site.apart()


async def test_a_trial_ends_after_a_while() -> None:
    server = Server(takes_s=3.0)
    site = Site(server)
    assert await site.look()
    assert site.why == "untried: a trial takes longer than 10 s"
    assert len(server.sizes) == 4
    server.takes_s = 0.1
    assert await site.look()
    assert not site.apart()


@pytest.mark.parametrize("met", [UpstreamRefused("no"), ModelFailed("no")])
async def test_a_model_that_refuses_every_row_is_untried(met: GatewayError) -> None:
    site = Site(Server(meets=met))
    assert await site.look()
    assert site.why.startswith("untried: it answers 0 of the ")


async def test_what_was_tried_counts_until_the_model_is_another() -> None:
    server = Server()
    site = Site(server)
    await site.look()
    tried = len(server.sizes)
    server.does = softmax
    await site.look()
    site.anew()
    await site.look()
    assert len(server.sizes) == tried
    assert not site.apart()
    server.versions = ("1", "2")
    await site.look()
    assert site.apart()
    server.does = lambda x: 2 * x
    server.config.parameters["other"].string_value = "code"
    await site.look()
    assert not site.apart()


@pytest.mark.parametrize(
    ("there", "tried", "apart"),
    [(("1", "2"), {"1", "2"}, True), (("1",), {"1"}, False), (("3",), {""}, False)],
)
async def test_each_version_of_a_split_that_is_there_is_tried(
    there: tuple[str, ...], tried: set[str], apart: bool
) -> None:
    server = Server(versions=there, second=softmax)
    site = Site(server, versions={"1": 50.0, "2": 50.0})
    assert await site.look()
    assert (server.tried, site.apart()) == (tried, apart)


async def test_a_server_that_tells_nothing_has_one_call_at_a_time() -> None:
    site = Site(Server(tells=False))
    await site.look()
    assert [told.apart for told in site.learnt] == [True]
    assert site.why == "untried: its server has not told what it takes"


@pytest.mark.parametrize(("max_batch", "apart"), [(1, None), (8, True)])
async def test_another_server_of_the_protocol_is_tried_where_the_settings_say_it_batches(
    max_batch: int, apart: bool | None
) -> None:
    for does in (softmax, lambda x: 2 * x):
        site = Site(Server(does=does, kind="kserve"), max_batch=max_batch)
        assert await site.look()
        last = site.apart() if site.learnt else None
        assert last == (apart and does is softmax)


async def test_another_server_that_tells_nothing_has_one_call_at_a_time() -> None:
    site = Site(Server(kind="kserve"), max_batch=8)
    site.place.inspector = None
    assert await site.look()
    assert site.apart()


async def test_the_cloud_is_not_tried() -> None:
    server = Server(does=softmax)
    site = Site(server, zone=Zone.CLOUD)
    assert await site.look()
    assert server.sizes == []
    assert site.place.unbatched == {}


async def test_a_model_that_is_gone_from_the_settings_is_told_no_longer() -> None:
    site = Site(Server(does=softmax))
    await site.look()
    site.catalog.endpoints["gpu"].models.clear()  # type: ignore[attr-defined]
    await site.look()
    assert site.place.unbatched == {}


async def test_rows_too_large_to_send_many_of_are_not_tried() -> None:
    made = joining()
    made.input[0].dims[:] = [3 << 20]
    server = Server(made)
    site = Site(server)
    assert await site.look()
    assert (site.why, server.sizes) == ("untried: a row has 12 MiB", [])


async def test_large_rows_are_tried_in_batches_that_can_be_sent() -> None:
    made = joining()
    made.max_batch_size = 64
    made.input[0].dims[:] = [1 << 20]
    server = Server(made)
    assert await Site(server).look()
    assert max(server.sizes) == 3


@pytest.mark.parametrize(
    "datatype",
    [
        *("BOOL", "INT8", "INT16", "INT32", "INT64", "UINT8", "UINT16", "UINT32", "UINT64"),
        *("FP16", "BF16", "FP32", "FP64", "BYTES"),
    ],
)
async def test_rows_of_every_datatype_differ_and_are_sent_and_read_as_they_are(
    datatype: str,
) -> None:
    rows = trial_rows([Input("x", datatype, (-1, 4))])
    sent = [encoded("x", datatype, row["x"]) for row in rows]
    assert len({tensor.data for tensor in sent}) >= 4
    for tensor in sent:
        assert tensor.shape == (1, 8, 4)
        assert encoded("x", datatype, decoded(tensor)) == tensor


@pytest.mark.parametrize(
    ("datatype", "off", "apart"),
    [
        ("FP32", 3e-4, False),
        ("FP32", 3e-3, True),
        ("FP64", 3e-3, True),
        ("FP16", 3e-3, False),
        ("FP16", 3e-2, True),
        ("BF16", 2e-2, False),
        ("BF16", 2e-1, True),
    ],
)
async def test_how_exact_an_output_has_to_be_goes_by_its_datatype(
    datatype: str, off: float, apart: bool
) -> None:
    def rounded(x: Array) -> Array:
        return x * (1 + (off if len(x) > 1 else 0))

    site = Site(Server(does=rounded, gives=datatype))
    await site.look()
    assert site.apart() is apart


def test_an_axis_that_nothing_bounds_has_room_for_a_picture() -> None:
    (row, *_) = trial_rows([Input("x", "FP32", (3, -1, -1))])
    assert row["x"].shape == (1, 3, 32, 32)
