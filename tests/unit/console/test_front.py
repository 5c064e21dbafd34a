"""The page over HTTP: its files, its stream, what operators do, and what others may not."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from gateway.accounting.audit.actions import ActionWatch
from gateway.accounting.records import Durable
from gateway.config import OperatorSettings
from tests.unit.console.console_rig import Desk, told
from tests.unit.fronts.http_rig import Answer, Client, serving
from tests.unit.harness import request

pytestmark = pytest.mark.anyio

OPERATORS = {
    "wall": OperatorSettings(key=SecretStr("wall-key"), may="look"),
    "oncall": OperatorSettings(key=SecretStr("oncall-key"), may="operate"),
}
WALL = ("authorization", "Bearer wall-key")
ONCALL = ("authorization", "Bearer oncall-key")
JSON = ("content-type", "application/json")


@asynccontextmanager
async def served(desk: Desk) -> AsyncIterator[tuple[Desk, Client]]:
    async with serving(desk.app()) as port:
        yield desk, await Client.to(port)
        desk.feed.close()


def drained(desk: Desk) -> bool:
    return desk.rig.registry.states["gpu"].drained


async def post(client: Client, path: str, document: Any, *headers: tuple[str, str]) -> Answer:
    return await client.ask("POST", path, json.dumps(document).encode(), [JSON, *headers])


async def events(client: Client) -> AsyncIterator[tuple[str, str, dict[str, Any]]]:
    """Of a stream whose head has been read; every event is one chunk."""
    while size := int(await client.reader.readline(), 16):
        chunk = await client.reader.readexactly(size)
        await client.reader.readline()
        for event in chunk.split(b"\n\n"):
            if event:
                yield told(event)


@asynccontextmanager
async def stream(port_of: Client, *headers: tuple[str, str]) -> AsyncIterator[Any]:
    port = port_of.writer.get_extra_info("peername")[1]
    client = await Client.to(port)
    await client.send(b"GET /console/events HTTP/1.1\r\nHost: localhost\r\n")
    await client.send("".join(f"{k}: {v}\r\n" for k, v in headers).encode() + b"\r\n")
    status, found = await client.head()
    assert (status, found["content-type"]) == (200, "text/event-stream; charset=utf-8")
    try:
        yield events(client)
    finally:
        client.writer.close()


async def test_the_page_asks_nothing_of_anybody_else() -> None:
    async with served(Desk()) as (_, client):
        page = await client.ask("GET", "/console")
        assert page.status == 200
        policy = page.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert re.findall(r"(?:src|href)=\"([^\"]+)\"", page.body.decode()) == [
            "/console/files/icon.svg", "/console/files/console.js", "/console/files/console.css",
        ]  # fmt: skip
        for name in ("console.js", "console.css", "icon.svg"):
            found = await client.ask("GET", f"/console/files/{name}")
            assert (found.status, found.headers["x-content-type-options"]) == (200, "nosniff")
            addresses = set(re.findall(rb"https?://[^\s\"'`)]+", found.body))
            assert addresses <= {  # names of XML, and nothing that is ever asked
                b"http://www.w3.org/2000/svg", b"http://www.w3.org/1999/xlink",
                b"http://www.w3.org/1998/Math/MathML", b"http://www.w3.org/1999/xhtml",
                b"http://www.w3.org/XML/1998/namespace",
            }  # fmt: skip


@pytest.mark.parametrize("name", ["source.sha256", "..%2fpage.py", "x", "index.html/"])
async def test_no_other_file_is_served(name: str) -> None:
    async with served(Desk()) as (_, client):
        assert (await client.ask("GET", f"/console/files/{name}")).status == 404


async def test_a_call_is_in_the_stream_as_soon_as_it_is_recorded() -> None:
    async with served(Desk()) as (desk, client):
        async with stream(client) as told_now:
            kind, _, picture = await anext(told_now)
            assert (kind, "decisions" in picture) == ("snapshot", False)
            await desk.rig.call(request("restricted"))
            async for _, _, data in told_now:
                if "decisions" in data:
                    (only,) = data["decisions"]
                    assert (only["sensitivity"], only["endpoint"]) == ("restricted", "gpu")
                    break
        explained = await client.ask("GET", f"/console/decisions/{only['seq']}")
        assert "restricted data may not leave" in json.loads(explained.body)["headline"]


async def test_a_stream_that_is_left_is_forgotten() -> None:
    async with served(Desk()) as (desk, client):
        async with stream(client) as told_now:
            await anext(told_now)
            assert desk.feed.looking == 1
        async with asyncio.timeout(5):
            while desk.feed.looking:  # noqa: ASYNC110 - a socket closes when it closes
                await asyncio.sleep(0.01)


async def test_a_decision_that_is_not_kept_is_not_found() -> None:
    async with served(Desk()) as (_, client):
        answer = await client.ask("GET", "/console/decisions/17")
        assert answer.status == 404
        assert "console.tail" in answer.error


@pytest.mark.parametrize("path", ["events", "operator", "decisions/1"])
async def test_without_an_operators_key_nothing_is_told(path: str) -> None:
    async with served(Desk(operators=OPERATORS, keys_configured=True)) as (_, client):
        assert (await client.ask("GET", f"/console/{path}")).status == 401
        assert (await client.ask("GET", "/console")).status == 200  # the page has no data


async def test_an_operator_drains_and_un_drains_and_who_only_looks_does_not() -> None:
    async with served(Desk(operators=OPERATORS)) as (desk, client):
        asked = {"endpoint": "gpu", "drained": True}
        assert (await post(client, "/console/drain", asked, WALL)).status == 403
        assert not drained(desk)
        assert (await post(client, "/console/drain", asked, ONCALL)).status == 200
        assert drained(desk)
        counted = desk.rig.metrics.registry.get_sample_value
        assert counted("spillway_operator_actions_total", {"action": "drain"}) == 1
        asked["drained"] = False
        assert (await post(client, "/console/drain", asked, ONCALL)).status == 200
        assert not drained(desk)


@pytest.mark.parametrize(
    ("path", "document"),
    [
        ("drain", {"endpoint": "nowhere", "drained": True}),
        ("drain", {"endpoint": "gpu"}),
        ("drain", {"endpoint": "gpu", "drained": "yes"}),
        ("drain", {"endpoint": 1, "drained": True}),
        ("spill", {"stopped": 1}),
        ("spill", {"stopped": True}),  # there is no switch here
        ("drain", []),
    ],
)
async def test_what_makes_no_sense_is_refused_and_changes_nothing(path: str, document: Any) -> None:
    async with served(Desk()) as (desk, client):
        assert (await post(client, f"/console/{path}", document)).status == 400
        assert not any(state.drained for state in desk.rig.registry.states.values())


async def test_the_switch_on_the_page_is_the_file(tmp_path: Path) -> None:
    file = tmp_path / "stop"
    async with served(Desk(stop_file=file)) as (desk, client):
        await post(client, "/console/spill", {"stopped": True})
        assert file.exists()
        desk.rig.registry.drain("gpu", True)
        ended = await desk.rig.call(request("clear"))
        assert desk.rig.cloud_seen == []
        assert (
            desk.rig.log.of(desk.rig.log.lines[-1]["id"])[0]["vetoes"]["cloud"] == "spill_stopped"
        )
        assert ended.error is not None
        await post(client, "/console/spill", {"stopped": False})
        assert not file.exists()
        assert (await desk.rig.call(request("clear"))).error is None


async def test_a_switch_whose_file_cannot_be_made_says_why(tmp_path: Path) -> None:
    async with served(Desk(stop_file=tmp_path / "no" / "such" / "stop")) as (_, client):
        answer = await post(client, "/console/spill", {"stopped": True})
        assert answer.status == 400
        assert "spill_stop_file" in answer.error


@pytest.mark.parametrize("closes", [True, False])
async def test_what_closes_is_done_without_a_record_and_what_opens_is_not(
    tmp_path: Path, closes: bool
) -> None:
    file = tmp_path / "stop"
    async with served(Desk(stop_file=file)) as (desk, client):
        if not closes:
            file.touch()
            desk.rig.registry.drain("gpu", True)
        desk.rig.log.full = True
        for path, document in (
            ("drain", {"endpoint": "gpu", "drained": closes}), ("spill", {"stopped": closes}),
        ):  # fmt: skip
            answer = await post(client, f"/console/{path}", document)
            assert answer.status == 503
            assert ("it is done" if closes else "it is not done") in answer.error
        assert drained(desk)
        assert file.exists()
        counted = desk.rig.metrics.registry.get_sample_value
        assert counted("spillway_operator_actions_total", {"action": "drain"}) is None


async def test_each_action_is_on_record_with_its_operator(tmp_path: Path) -> None:
    file = tmp_path / "stop"
    async with served(Desk(stop_file=file, operators=OPERATORS)) as (desk, client):
        for drain in (True, False):
            await post(client, "/console/drain", {"endpoint": "gpu", "drained": drain}, ONCALL)
        for stopped in (True, False):
            await post(client, "/console/spill", {"stopped": stopped}, ONCALL)
        await post(client, "/console/spill", {"stopped": True}, WALL)
        told = [(line["action"], line["by"], line["on"]) for line in desk.rig.log.lines]
        assert told == [
            ("drain", "oncall", "gpu"), ("undrain", "oncall", "gpu"),
            ("spill_stop", "oncall", str(file)), ("spill_go", "oncall", str(file)),
        ]  # fmt: skip


async def test_the_switch_is_told_of_once_though_its_file_is_looked_at_meanwhile(
    tmp_path: Path,
) -> None:
    """While the record of its turning waits for the disk."""

    class Slow:
        def __init__(self) -> None:
            self.told: list[str] = []

        def check(self) -> None:
            pass

        def append(self, record: Mapping[str, Any]) -> Durable:
            self.told.append(f"{record['action']} {record['via']}")
            loop = asyncio.get_running_loop()
            durable: Durable = loop.create_future()
            loop.call_later(0.05, durable.set_result, None)
            return durable

        def note(self, record: Mapping[str, Any]) -> None:
            raise AssertionError("what operators do is waited for")

    async with served(Desk(stop_file=tmp_path / "stop")) as (desk, client):
        log = Slow()
        desk.actions._records = log
        noticed = ActionWatch(desk.actions, desk.sight.stop, None, 0.0)
        for stopped in (True, False):
            turning = asyncio.create_task(post(client, "/console/spill", {"stopped": stopped}))
            while not turning.done():
                await noticed.poll()
                await asyncio.sleep(0.01)
            await noticed.poll()
        assert log.told == ["spill_stop console", "spill_go console"]


async def test_a_stream_ends_when_the_settings_name_its_operator_no_more() -> None:
    desk = Desk(operators={"alma": OperatorSettings(key=SecretStr("first-key"))})
    async with (
        served(desk) as (_, client),
        stream(client, ("authorization", "Bearer first-key")) as told_now,
    ):
        await anext(told_now)
        named = {"alma": OperatorSettings(key=SecretStr("second-key"))}
        desk.operators.follow(named, True, lambda token: ())
        async with asyncio.timeout(10):
            async for _ in told_now:
                pass


async def test_a_stream_ends_when_its_operator_is_one_no_more() -> None:
    """A key that is revoked is refused in five seconds, and so is what it has open."""
    ids = ["hk3v5zqx2b7a"]
    operators = {"alma": OperatorSettings(issued_key=ids[0])}
    desk = Desk(operators=operators, issued_ids=lambda token: tuple(ids))
    async with (
        served(desk) as (_, client),
        stream(client, ("authorization", "Bearer sk-spw-x")) as told_now,
    ):
        await anext(told_now)
        ids.clear()
        async with asyncio.timeout(10):
            async for _ in told_now:
                pass
