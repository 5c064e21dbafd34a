"""What servers say of a model's tensors is learnt before any of its calls may leave."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from tritonclient.grpc import service_pb2

from gateway.classify.classifier import Classifier
from gateway.classify.text.extract import UNKNOWN_TENSORS
from gateway.config import ClassifySettings
from gateway.config.model_catalog import Catalog, CatalogModel, TensorNames
from gateway.core.errors import UpstreamUnreachable
from gateway.core.types import Classification, Endpoint, ServedModel, Tensor, TensorCall, Zone
from gateway.endpoints.health.prober import Watch
from gateway.endpoints.model_discovery import ServerCensus
from tests.unit.classify.conftest import make_request
from tests.unit.harness import Rig, cloud, onprem

pytestmark = pytest.mark.anyio

SIMPLE = ServedModel("simple")
KINDS = {"gpu": ("triton", Zone.ONPREM), "away": ("kserve", Zone.CLOUD)}


class Server:
    """Answers questions about its models, or does not."""

    def __init__(self, kind: str, *inputs: str) -> None:
        self.kind = kind
        self.inputs = inputs
        self.silent = False

    async def grpc(self, method: str, message: bytes, timeout_s: float) -> bytes:
        if self.silent:
            raise UpstreamUnreachable("there is nobody")
        if method == "ModelConfig":
            answer: Any = service_pb2.ModelConfigResponse()
            for name in self.inputs:
                answer.config.input.add(name=name)
            answer.config.output.add(name="OUT")
        else:
            answer = service_pb2.ModelMetadataResponse(name="simple")
            for name in self.inputs:
                answer.inputs.add(name=name, datatype="FP32", shape=[-1, 4])
            answer.outputs.add(name="OUT", datatype="FP32", shape=[-1])
        return bytes(answer.SerializeToString())

    async def rest(self, path: str, timeout_s: float) -> Any:
        raise NotImplementedError


class Place:
    def __init__(self, server: Server, zone: Zone) -> None:
        self.inspector = server
        self.settings = type("Settings", (), {"kind": server.kind, "zone": zone, "canary": None})
        self.unbatched: dict[str, Any] = {}
        self.joint_limits: dict[str, Any] = {}
        self.rows: dict[Any, Any] = {}


def catalog(**more: Any) -> Catalog:
    model = CatalogModel("simple", "infer", ("gpu", "away"), tensors_clear=True, **more)
    return Catalog(
        {"simple": model},
        {
            name: Endpoint(name, zone, kind, {"simple": SIMPLE})
            for name, (kind, zone) in KINDS.items()
        },
    )


async def learnt(found: Catalog, servers: Mapping[str, Server]) -> dict[str, bool]:
    census = ServerCensus(found, False, lambda *_: None)
    return {n: await census(n, Place(s, KINDS[n][1])) for n, s in servers.items()}  # type: ignore[arg-type]


async def test_both_kinds_of_server_are_asked() -> None:
    for name, server in (("gpu", Server("triton", "A", "B")), ("away", Server("kserve", "A", "B"))):
        found = catalog()
        assert await learnt(found, {name: server}) == {name: True}
        known = found.tensor_names(found.find("simple"))
        assert known == TensorNames(frozenset("AB"), frozenset({"OUT"}))


async def test_undeclared_models_join_at_an_endpoint_and_not_at_its_further_places() -> None:
    found = Catalog(
        {}, {name: Endpoint(name, Zone.ONPREM, "triton", {}) for name in ("gpu", "gpu#m:2")}
    )

    class Listing(Server):
        async def grpc(self, method: str, message: bytes, timeout_s: float) -> bytes:
            if method != "RepositoryIndex":
                return await super().grpc(method, message, timeout_s)
            answer = service_pb2.RepositoryIndexResponse()
            answer.models.add(name="extra")
            return bytes(answer.SerializeToString())

    census = ServerCensus(found, True, lambda *_: None)
    for name in ("gpu#m:2", "gpu"):
        await census(name, Place(Listing("triton", "A"), Zone.ONPREM))  # type: ignore[arg-type]
    assert found.find("extra").endpoints == ("gpu",)


async def test_what_onprem_servers_say_counts_before_the_cloud() -> None:
    found = catalog()
    await learnt(found, {"away": Server("kserve", "A", "NOTE"), "gpu": Server("triton", "A")})
    known = found.tensor_names(found.find("simple"))
    assert known is not None
    assert known.inputs == frozenset("A")


async def test_the_operators_word_counts_before_all() -> None:
    found = catalog(inputs=frozenset({"C"}))
    assert await learnt(found, {"away": Server("kserve")}) == {"away": True}
    assert found.tensor_names(found.find("simple")) == TensorNames(frozenset("C"))


@pytest.mark.parametrize("server", [Server("kserve"), Server("triton")])
async def test_a_server_that_names_no_input_says_nothing(server: Server) -> None:
    found = catalog()
    name = "away" if server.kind == "kserve" else "gpu"
    assert await learnt(found, {name: server}) == {name: False}
    assert found.tensor_names(found.find("simple")) is None


async def test_a_call_whose_tensors_nobody_knows_stays(classifier_of: Any) -> None:
    found = catalog()
    call = TensorCall((Tensor("A", "FP32", (1,), bytes(4)),))
    classifier = classifier_of(found)

    async def verdict() -> Classification:
        told: Classification = await classifier.classify(make_request(call, model="simple"))
        return told

    assert (await verdict()).reason == UNKNOWN_TENSORS
    await learnt(found, {"away": Server("kserve", "A")})
    assert (await verdict()).reason == "clear"


@pytest.fixture
def classifier_of() -> Callable[[Catalog], Any]:
    class NoText:
        async def start(self) -> None: ...
        async def scan(self, texts: Any, budget_s: float, restricts: object = None) -> list[Any]:
            return [[] for _ in texts]

        async def aclose(self) -> None: ...

    return lambda found: Classifier(ClassifySettings(), found, NoText(), time.monotonic)


async def test_a_server_that_did_not_tell_is_asked_again() -> None:
    rig = Rig(onprem(), cloud())
    asked: list[str] = []

    async def learn(name: str, state: Any) -> bool:
        asked.append(name)
        return len(asked) > 1

    watch = Watch(rig.registry.states, learn, rig.metrics)
    await watch.learn("gpu")
    for _ in range(25):
        await watch.probe("gpu")
    assert asked == ["gpu", "gpu"]
