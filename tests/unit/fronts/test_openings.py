"""What is known of a head that comes again on its connection, and what is asked anew each time."""

from __future__ import annotations

import asyncio
import gc
import hmac
import json
import weakref
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from gateway.auth import Callers
from gateway.config import KeySettings
from gateway.config.model_catalog import Catalog, CatalogModel
from gateway.core.reply import InferenceReply
from gateway.core.types import EVERYWHERE, ONPREM_ONLY, InferenceRequest
from gateway.protocols.http.server import HttpServer
from gateway.protocols.listeners import bound
from gateway.server import Services
from gateway.server.http import App
from gateway.server.kserve import front as kserve
from gateway.server.openai import front as openai
from tests.unit.callers.rig import Vault
from tests.unit.fronts import http_rig
from tests.unit.fronts.every_front import PROMPT, TENSOR, answering
from tests.unit.fronts.http_rig import Answer, Client

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("one_event_loop")]

CHAT, INFER = "/v1/chat/completions", "/v2/models/tensors/infer"
BODIES: dict[str, dict[str, Any]] = {CHAT: PROMPT, INFER: {"inputs": [TENSOR]}}


def keys(tenant: str = "acme", **scope: Any) -> dict[str, KeySettings]:
    told = {"key": SecretStr("first"), "tenant": tenant, **scope}
    return {"a": KeySettings.model_validate(told)}


def services(callers: Callers) -> Services:
    models = [
        CatalogModel("m", "generate", ("gpu",), latency_budget_s=5.0),
        CatalogModel("other", "generate", ("gpu",), latency_budget_s=3.0),
        CatalogModel("tensors", "infer", ("gpu",)),
    ]
    made = http_rig.services(http_rig.Pipeline())
    return replace(made, callers=callers, catalog=Catalog({m.name: m for m in models}))


@dataclass
class Rig:
    """One connection to a gateway, and its calls."""

    server: HttpServer
    client: Client
    calls: list[InferenceRequest] = field(default_factory=list)

    def app(self, made: Services) -> App:
        made = replace(made, handle=self.handle)
        return App(made, [openai.front(made), kserve.front(made)])

    def serve(self, made: Services) -> None:
        self.server.serve(self.app(made))

    async def handle(self, request: InferenceRequest) -> InferenceReply:
        self.calls.append(request)
        return await answering(request)

    async def ask(
        self, path: str = CHAT, secret: str = "first", model: str = "m", **headers: str
    ) -> Answer:
        said = [("content-type", "application/json"), ("authorization", f"Bearer {secret}")]
        said += [(name.replace("_", "-"), value) for name, value in headers.items()]
        body = BODIES[path] | ({"model": model} if path == CHAT else {})
        asked = self.client.ask("POST", path, json.dumps(body).encode(), said)
        return await asyncio.wait_for(asked, 10)


@asynccontextmanager
async def connected(made: Services) -> AsyncIterator[Rig]:
    server = HttpServer(App(made, [openai.front(made)]))
    listening = bound("127.0.0.1", 0)
    await server.start([listening])
    client = await Client.to(listening.getsockname()[1])
    rig = Rig(server, client)
    rig.serve(made)
    try:
        yield rig
    finally:
        client.close()
        server.stop()
        await server.stopped(0.0)


@pytest.mark.parametrize("path", [CHAT, INFER])
async def test_a_caller_is_asked_for_its_key_once_for_a_head(path: str) -> None:
    compared: list[bytes] = []

    def same(one: bytes, other: bytes) -> bool:
        compared.append(other)
        return one == other

    async with connected(services(Callers(keys(), same))) as rig:
        for _ in range(3):
            assert (await rig.ask(path)).status == 200
        assert len(compared) == 1
        assert (await rig.ask(path, "wrong")).status == 401
        assert (await rig.ask(path, "wrong")).status == 401
        assert (await rig.ask(path)).status == 200
    assert len(compared) == 4
    assert {call.tenant for call in rig.calls} == {"acme"}


@pytest.mark.parametrize("path", [CHAT, INFER])
async def test_an_issued_key_is_looked_at_for_each_call(path: str, tmp_path: Path) -> None:
    vault = Vault(tmp_path)
    issued = vault.create("acme")
    vault.issued.poll()
    async with connected(services(vault.callers)) as rig:
        assert (await rig.ask(path, issued)).status == 200
        vault.times.pass_s(9)
        assert (await rig.ask(path, issued)).status == 503
        vault.issued.poll()
        assert (await rig.ask(path, issued)).status == 200
        vault.store.revoke(issued[7:19], vault.times.wall_s)
        vault.issued.poll()
        assert (await rig.ask(path, issued)).status == 401


@pytest.mark.parametrize("path", [CHAT, INFER])
async def test_what_is_known_of_a_head_ends_with_the_settings(path: str) -> None:
    async with connected(services(Callers(keys()))) as rig:
        assert (await rig.ask(path)).status == 200
        # The connection is not told: what it knows must not count, even so.
        rig.server.app = rig.app(services(Callers(keys("globex", placement="onprem"))))
        assert (await rig.ask(path)).status == 200
        others = {"b": KeySettings(key=SecretStr("second"), tenant="acme")}
        rig.server.app = rig.app(services(Callers(others)))
        assert (await rig.ask(path)).status == 401
    assert [call.tenant for call in rig.calls] == ["acme", "globex"]
    assert [call.zones for call in rig.calls] == [EVERYWHERE, ONPREM_ONLY]


class CompareDigest:
    """Of callers, who can have no weak reference themselves where they are compiled."""

    def __call__(self, known: bytes, given: bytes) -> bool:
        return hmac.compare_digest(known, given)


async def test_a_connection_that_rests_keeps_nothing_of_other_settings() -> None:
    async with connected(services(Callers({}))) as rig:
        compare = CompareDigest()
        gone = weakref.ref(compare)
        rig.serve(services(Callers(keys(), compare)))
        del compare
        assert (await rig.ask()).status == 200
        rig.serve(services(Callers({})))
        gc.collect()
        assert gone() is None


async def test_what_a_head_states_holds_for_each_of_its_calls_and_for_no_other() -> None:
    stays = {"x_spillway_spill": "never", "x_spillway_sensitivity": "restricted"}
    async with connected(services(Callers(keys()))) as rig:
        for headers in (stays, stays, {}, {}, stays):
            assert (await rig.ask(**headers)).status == 200
        assert (await rig.ask(x_spillway_spill="maybe")).status == 400
        assert (await rig.ask(x_spillway_spill="maybe")).status == 400
    assert [call.labelled for call in rig.calls] == [True, True, False, False, True]
    for call in rig.calls:
        assert call.zones == (ONPREM_ONLY if call.labelled else EVERYWHERE)


async def test_each_model_has_its_own_terms() -> None:
    async with connected(services(Callers(keys(models=("m", "other"))))) as rig:
        for model in ("m", "m", "other", "m"):
            assert (await rig.ask(model=model)).status == 200
        assert (await rig.ask(model="tensors")).status == 400
    budgets_s = [round(call.deadline.at_s - call.received_s, 3) for call in rig.calls]
    assert budgets_s == [5.0, 5.0, 3.0, 5.0]
    assert len({call.id for call in rig.calls}) == 4
    assert len({call.traceparent for call in rig.calls}) == 4


async def test_a_model_that_a_key_may_not_use_is_refused_each_time() -> None:
    async with connected(services(Callers(keys(models=("m",))))) as rig:
        for model, status in (("m", 200), ("other", 403), ("other", 403), ("m", 200)):
            assert (await rig.ask(model=model)).status == status


async def test_ids_that_stand_in_the_head_are_those_of_each_of_its_calls() -> None:
    name = "0A9B8C7D-0000-4000-8000-000000000001"
    parent = f"00-{'ab' * 16}-{'cd' * 8}-01"
    async with connected(services(Callers(keys()))) as rig:
        answers = [await rig.ask(x_request_id=name, traceparent=parent) for _ in range(2)]
    assert {answer.headers["x-request-id"] for answer in answers} == {name.lower()}
    traces = [call.traceparent for call in rig.calls]
    assert {trace[:36] for trace in traces} == {parent[:36]}
    assert len({*traces, parent}) == 3


async def test_a_caller_that_has_become_another_has_its_own_terms(tmp_path: Path) -> None:
    vault = Vault(tmp_path)
    issued = vault.create("acme")
    vault.issued.poll()
    async with connected(services(vault.callers)) as rig:
        for looked_for in (True, False, False, True):
            vault.issued.looked_for = lambda added, known=looked_for: known  # type: ignore[misc]
            assert (await rig.ask(secret=issued)).status == 200
    zones = [call.zones for call in rig.calls]
    assert zones == [EVERYWHERE, ONPREM_ONLY, ONPREM_ONLY, EVERYWHERE]
