"""Calls that are split among versions: by weight, the same for a caller, and none is lost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

import pytest

from gateway.config import ConfigError, parse
from gateway.core.deadline import Deadline
from gateway.core.errors import (
    Unconnected,
    UpstreamBusy,
    UpstreamError,
    UpstreamFailed,
    UpstreamRefused,
    UpstreamUnreachable,
)
from gateway.core.reply import JsonBody, OneFrame, ReplyStream
from gateway.core.types import InferenceRequest, ServedModel, TensorCall, WireProtocol
from gateway.endpoints.connectors import OnPremDoor
from gateway.scheduling.routing.version_split import preferred_versions

pytestmark = pytest.mark.anyio


def call(caller: str = "", *, id: str = "1", payload: TensorCall | None = None) -> InferenceRequest:
    return InferenceRequest(
        id, WireProtocol.KSERVE_REST, "tenant", "m", payload or TensorCall(()),
        Deadline.after(1.0), caller=caller,
    )  # fmt: skip


def served(weights: Mapping[str, float]) -> ServedModel:
    return ServedModel("m", versions=weights)


def first(weights: Mapping[str, float], caller: str, id: str = "1") -> str:
    return preferred_versions(served(weights), call(caller, id=id))[0]


def test_callers_are_shared_out_by_weight_and_keep_their_version() -> None:
    weights = {"1": 90.0, "2": 10.0}
    callers = [f"key-{number}" for number in range(4000)]
    chosen = {caller: first(weights, caller) for caller in callers}
    assert 0.08 < Counter(chosen.values())["2"] / len(callers) < 0.12
    assert all(first(weights, caller, id="another") == chosen[caller] for caller in callers[:100])


def test_a_version_whose_weight_grows_keeps_its_callers() -> None:
    callers = [f"key-{number}" for number in range(1000)]
    before = {c for c in callers if first({"1": 90, "2": 10}, c) == "2"}
    after = {c for c in callers if first({"1": 60, "2": 40}, c) == "2"}
    assert before < after


def test_versions_are_in_the_order_of_their_numbers() -> None:
    callers = [f"key-{number}" for number in range(300)]
    for caller in callers:
        assert first({"9": 1, "10": 1}, caller) == first({"10": 1, "9": 1}, caller)
    assert {first({"1": 0, "2": 1}, caller) for caller in callers} == {"2"}


def test_where_nobody_says_who_calls_each_call_is_shared_out_and_each_sequence_stays() -> None:
    weights = {"1": 50.0, "2": 50.0}
    assert len({first(weights, "", id=str(number)) for number in range(50)}) == 2
    sequence = TensorCall((), parameters={"sequence_id": 7})
    calls = (call(id=str(number), payload=sequence) for number in range(50))
    assert len({preferred_versions(served(weights), one)[0] for one in calls}) == 1


class Server:
    """A connector that has some versions."""

    def __init__(self, *versions: str, without: UpstreamError | None = None) -> None:
        self.versions = versions
        self.without = without or UpstreamRefused("Request for unknown model", http_status=404)
        self.tried: list[str] = []

    async def open(self, request: InferenceRequest, served: ServedModel) -> ReplyStream:
        payload = request.payload
        version = served.version or (payload.version if isinstance(payload, TensorCall) else "")
        self.tried.append(version)
        if version and version not in self.versions:
            raise self.without
        return OneFrame(JsonBody(version.encode()))

    async def ready(self) -> bool:
        return True

    async def aclose(self) -> None:
        """Nothing is held."""


@pytest.mark.parametrize(
    ("there", "tried"), [(("1", "2"), ["2"]), (("1",), ["2", "1"]), (("3",), ["2", "1", ""])]
)
async def test_a_version_that_a_server_does_not_have_loses_no_call(
    there: tuple[str, ...], tried: list[str]
) -> None:
    server = Server(*there)
    await OnPremDoor(server).infer(call("a"), served({"1": 0.0, "2": 1.0}))
    assert server.tried == tried


UNLOADING = UpstreamFailed("503", transient=True, unserved=True)
PASSED_ON = (
    UpstreamBusy("full"),
    Unconnected("no connection"),
    UpstreamRefused("wrong shape"),
    UpstreamFailed("broken"),
)


async def test_a_version_that_is_unloaded_loses_no_call() -> None:
    server = Server("1", without=UNLOADING)
    await OnPremDoor(server).infer(call("a"), served({"1": 0.0, "2": 1.0}))
    assert server.tried == ["2", "1"]


@pytest.mark.parametrize("failure", PASSED_ON, ids=lambda failure: type(failure).__name__)
async def test_what_says_nothing_of_the_version_ends_the_try(failure: UpstreamError) -> None:
    server = Server("1", without=failure)
    with pytest.raises(type(failure)):
        await OnPremDoor(server).infer(call("a"), served({"1": 0.0, "2": 1.0}))
    assert server.tried == ["2"]


async def test_a_part_of_a_sequence_that_may_have_run_is_not_sent_again() -> None:
    part = call("a", payload=TensorCall((), parameters={"sequence_id": 7}))
    server = Server("1", without=UpstreamUnreachable("broken off"))
    with pytest.raises(UpstreamUnreachable):
        await OnPremDoor(server).infer(part, served({"1": 0.0, "2": 1.0}))
    assert server.tried == ["2"]


async def test_a_caller_that_names_a_version_has_that_one_or_none() -> None:
    server = Server("1")
    weights = served({"1": 1.0})
    with pytest.raises(UpstreamRefused):
        await OnPremDoor(server).infer(call("a", payload=TensorCall((), version="2")), weights)
    assert server.tried == ["2"]


async def test_without_a_split_the_server_chooses() -> None:
    server = Server("1")
    await OnPremDoor(server).infer(call("a"), replace(served({}), version="1"))
    assert server.tried == ["1"]


SETTINGS = """
endpoints:
  gpu: {{kind: triton, zone: onprem, url: "http://10.0.0.1:8000", grpc: "10.0.0.1:8001"}}
  llm: {{kind: openai, zone: onprem, url: "http://10.0.0.2:8000/v1"}}
  far: {{kind: openai, zone: cloud, url: "https://api.example.com/v1"}}
models:
  m: {{task: {task}, versions: {versions}, served_by: [{served}]}}
"""
NONSENSE = (
    ("{0: 1}", "{endpoint: gpu}", "infer", "versions"),
    ("{latest: 1}", "{endpoint: gpu}", "infer", "versions"),
    ("{1: -1}", "{endpoint: gpu}", "infer", "versions"),
    ("{1: a lot}", "{endpoint: gpu}", "infer", "versions"),
    ("{1: 0, 2: 0}", "{endpoint: gpu}", "infer", "no version has a weight above 0"),
    ("{1: 1}", "{endpoint: gpu, version: '1'}", "infer", "contradicts models.m.versions"),
    ("{1: 1}", "{endpoint: llm}", "generate", "has no versions to split calls among"),
    ("{1: 1}", "{endpoint: far}", "generate", "only on-prem servers have versions"),
)


@pytest.mark.parametrize(("versions", "by", "task", "told"), NONSENSE)
def test_settings_that_mean_nothing_are_refused(
    versions: str, by: str, task: str, told: str
) -> None:
    with pytest.raises(ConfigError, match=told):
        parse(SETTINGS.format(versions=versions, served=by, task=task))


def test_weights_are_numbers_of_any_size() -> None:
    text = SETTINGS.format(versions="{1: 90, 2: 0.5}", served="{endpoint: gpu}", task="infer")
    assert parse(text).models["m"].versions == {"1": 90.0, "2": 0.5}
