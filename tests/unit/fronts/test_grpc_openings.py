"""What is known of a gRPC call's head that comes again on its connection, and what is asked anew
each time."""

from __future__ import annotations

import asyncio
import gc
import hmac
import weakref
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from gateway.auth import Callers
from gateway.config import KeySettings, LimitSettings
from gateway.core.types import EVERYWHERE, ONPREM_ONLY, InferenceRequest
from tests.unit.callers.rig import Vault
from tests.unit.grpc_rig import Pipeline, RunningFront, infer_request, key, running_front
from tests.unit.http2.peers import (
    DATA,
    END_STREAM,
    HEADERS,
    INFER,
    Peer,
    caller,
    frame,
    message,
    request,
)

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("one_event_loop")]

OK, FORBIDDEN, UNAVAILABLE, UNAUTHENTICATED, MALFORMED = "0", "7", "14", "16", "3"


def keys(tenant: str = "acme", **scope: Any) -> dict[str, KeySettings]:
    told = {"key": SecretStr("first"), "tenant": tenant, **scope}
    return {"a": KeySettings.model_validate(told)}


@dataclass
class Rig:
    """One connection to a gateway, and its calls."""

    run: RunningFront
    peer: Peer
    calls: list[InferenceRequest]
    stream: int = 1
    blocks: dict[tuple[Any, ...], bytes] = field(default_factory=dict)

    async def ask(
        self, secret: str = "first", model: str = "simple", *more: tuple[str, str]
    ) -> str:
        """The status. Of the same metadata, the same block."""
        said = (("authorization", f"Bearer {secret}"), *more)
        stream, self.stream = self.stream, self.stream + 2
        block = b"".join(
            b"\x00%c%b\x7f%c%b" % (len(n), n.encode(), len(v) - 127, v.encode())
            if len(v) >= 127
            else b"\x00%c%b%c%b" % (len(n), n.encode(), len(v), v.encode())
            for n, v in request(INFER, *said)
        )
        asked = infer_request(model).SerializeToString()
        self.peer.send(frame(HEADERS, 4, stream, block))
        self.peer.send(frame(DATA, END_STREAM, stream, message(asked)))
        while True:
            told = await self.peer.fields(stream)
            if "grpc-status" in told:
                return told["grpc-status"]

    def change(self, callers: Callers, default_s: int) -> None:
        """The connection is not told: what it knows must not count, even so."""
        limits = LimitSettings(default_latency_budget_ms=default_s * 1000)
        services = replace(self.run.services, callers=callers, limits=limits)
        self.run.front._service.serve(services)
        self.run.front._server._handlers.clear()


@asynccontextmanager
async def connected(callers: Callers) -> AsyncIterator[Rig]:
    pipeline = Pipeline()
    async with running_front(pipeline.handle) as run:
        run.services = replace(run.services, callers=callers)
        run.front.serve(run.services)
        async with caller(run.port) as peer:
            yield Rig(run, peer, pipeline.seen)


async def test_a_caller_is_asked_for_its_key_once_for_a_head() -> None:
    compared: list[bytes] = []

    def same(one: bytes, other: bytes) -> bool:
        compared.append(other)
        return one == other

    async with connected(Callers(keys(), same)) as rig:
        for _ in range(3):
            assert await rig.ask() == OK
        assert len(compared) == 1
        assert await rig.ask("wrong") == UNAUTHENTICATED
        assert await rig.ask("wrong") == UNAUTHENTICATED
        assert await rig.ask() == OK
    assert len(compared) == 3
    assert {call.tenant for call in rig.calls} == {"acme"}


async def test_an_issued_key_is_looked_at_for_each_call(tmp_path: Path) -> None:
    vault = Vault(tmp_path)
    issued = vault.create("acme")
    vault.issued.poll()
    async with connected(vault.callers) as rig:
        assert await rig.ask(issued) == OK
        vault.times.pass_s(9)
        assert await rig.ask(issued) == UNAVAILABLE
        vault.issued.poll()
        assert await rig.ask(issued) == OK
        vault.store.revoke(issued[7:19], vault.times.wall_s)
        vault.issued.poll()
        assert await rig.ask(issued) == UNAUTHENTICATED


async def test_what_is_known_of_a_head_ends_with_the_settings() -> None:
    async with connected(Callers(keys())) as rig:
        assert await rig.ask() == OK
        rig.change(Callers(keys("globex", placement="onprem")), 7)
        assert await rig.ask() == OK
        others = {"b": KeySettings(key=SecretStr("second"), tenant="acme")}
        rig.change(Callers(others), 7)
        assert await rig.ask() == UNAUTHENTICATED
    assert [call.tenant for call in rig.calls] == ["acme", "globex"]
    assert [call.zones for call in rig.calls] == [EVERYWHERE, ONPREM_ONLY]
    budgets_s = [round(call.deadline.at_s - call.received_s) for call in rig.calls]
    assert budgets_s[1] == 7 != budgets_s[0]


class CompareDigest:
    """Of callers, who can have no weak reference themselves where they are compiled."""

    def __call__(self, known: bytes, given: bytes) -> bool:
        return hmac.compare_digest(known, given)


async def test_a_connection_that_rests_keeps_nothing_of_other_settings() -> None:
    async with connected(Callers({})) as rig:
        compare = CompareDigest()
        gone = weakref.ref(compare)
        rig.run.front.serve(replace(rig.run.services, callers=Callers(keys(), compare)))
        del compare
        assert await rig.ask() == OK
        rig.run.front.serve(rig.run.services)
        await asyncio.sleep(0)
        gc.collect()
        assert gone() is None


async def test_what_a_head_states_holds_for_each_of_its_calls_and_for_no_other() -> None:
    stays = (("x-spillway-spill", "never"), ("x-spillway-sensitivity", "restricted"))
    async with connected(Callers(keys())) as rig:
        for more in (stays, stays, (), (), stays):
            assert await rig.ask("first", "simple", *more) == OK
        for _ in range(2):
            assert await rig.ask("first", "simple", ("x-spillway-spill", "maybe")) == MALFORMED
            twice = (("x-spillway-spill", "allow"), ("x-spillway-spill", "never"))
            assert await rig.ask("first", "simple", *twice) == MALFORMED
    assert [call.labelled for call in rig.calls] == [True, True, False, False, True]
    for call in rig.calls:
        assert call.zones == (ONPREM_ONLY if call.labelled else EVERYWHERE)


async def test_a_model_that_a_key_may_not_use_is_refused_each_time() -> None:
    async with connected(Callers({"a": key("first", ("simple",))})) as rig:
        for model, status in (
            ("simple", OK), ("repeat", FORBIDDEN), ("repeat", FORBIDDEN), ("simple", OK),
        ):  # fmt: skip
            assert await rig.ask(model=model) == status


async def test_a_caller_that_has_become_another_has_its_own_terms(tmp_path: Path) -> None:
    vault = Vault(tmp_path)
    issued = vault.create("acme")
    vault.issued.poll()
    async with connected(vault.callers) as rig:
        for looked_for in (True, False, False, True):
            vault.issued.looked_for = lambda added, known=looked_for: known  # type: ignore[misc]
            assert await rig.ask(issued) == OK
    zones = [call.zones for call in rig.calls]
    assert zones == [EVERYWHERE, ONPREM_ONLY, ONPREM_ONLY, EVERYWHERE]
