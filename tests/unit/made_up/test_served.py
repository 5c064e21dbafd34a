"""A kind of endpoint and an operation are data: a file of each, and a whole gateway serves them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from gateway.config import ConfigError, parse
from gateway.config.endpoint_kinds import KINDS
from gateway.config.endpoint_kinds import register as register_kind
from gateway.core.operations.registry import OPERATIONS, by_path
from gateway.core.operations.registry import register as register_operation
from gateway.endpoints.connectors.kinds import CONNECTORS
from tests.unit.made_up.lines import LINES, connect
from tests.unit.made_up.translations import TRANSLATIONS
from tests.unit.whole_gateway import records, serving

pytestmark = pytest.mark.anyio

CLEAR, RESTRICTED = "Good morning.", "My card is 4111 1111 1111 1111."


@pytest.fixture(autouse=True)
def _registered() -> Iterator[None]:
    register_operation(TRANSLATIONS)
    register_kind(LINES)
    CONNECTORS[LINES] = connect
    yield
    del OPERATIONS[TRANSLATIONS.name], KINDS[LINES.name], CONNECTORS[LINES]


class Translator:
    """Speaks lines of JSON, and remembers what it was asked."""

    def __init__(self) -> None:
        self.received: list[dict[str, Any]] = []

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        document = json.loads(await reader.readline())
        self.received.append(document)
        writer.write(json.dumps({"text": f"{document['to']}: {document['text']}"}).encode() + b"\n")
        writer.close()

    def texts(self) -> list[str]:
        """Without those of canaries."""
        return [d["text"] for d in self.received if d["text"] != "Hi"]


@asynccontextmanager
async def translating(
    scratch: Path, zone: str
) -> AsyncIterator[tuple[httpx.AsyncClient, Translator]]:
    translator = Translator()
    async with await asyncio.start_server(translator, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        endpoint = {"kind": "lines", "zone": zone, "url": f"http://127.0.0.1:{port}"}
        model = {"task": "translate", "served_by": [{"endpoint": "there", "model": "opus"}]}
        async with serving(scratch, {"there": endpoint}, {"words": model}) as client:
            yield client, translator


async def translate(client: httpx.AsyncClient, **fields: Any) -> httpx.Response:
    return await client.post(TRANSLATIONS.path, json={"model": "words", "to": "de", **fields})


async def test_its_calls_are_served_and_recorded(tmp_path: Path) -> None:
    async with translating(tmp_path, "onprem") as (client, translator):
        answer = await translate(client, text=CLEAR)
        assert (answer.status_code, answer.json()) == (200, {"text": f"de: {CLEAR}"})
        assert answer.headers["x-spillway-endpoint"] == "there"
        asked = {"model": "opus", "to": "de", "text": CLEAR}
        assert [d for d in translator.received if d["text"] != "Hi"] == [asked]
        listed = (await client.get("/v1/models")).json()["data"]
        assert [model["id"] for model in listed] == ["words"]
    assert [r["operation"] for r in records(tmp_path)] == ["translations"]


async def test_its_body_is_checked_by_its_own_rules(tmp_path: Path) -> None:
    async with translating(tmp_path, "onprem") as (client, translator):
        for fields, param in (({}, "text"), ({"text": 1}, "text"), ({"text": CLEAR,
            "stream": True}, "stream")):  # fmt: skip
            refused = await translate(client, **fields)
            assert (refused.status_code, refused.json()["error"]["param"]) == (400, param)
        assert translator.texts() == []


async def test_what_restricts_does_not_leave_by_it(tmp_path: Path) -> None:
    async with translating(tmp_path, "cloud") as (client, translator):
        assert (await translate(client, text=CLEAR)).status_code == 200
        refused = await translate(client, text=RESTRICTED)
        assert refused.status_code == 503
        assert translator.texts() == [CLEAR]


def test_a_kind_that_does_not_serve_the_task_is_refused(tmp_path: Path) -> None:
    document = f"""
    audit: {{directory: {tmp_path}}}
    endpoints: {{there: {{kind: triton, zone: onprem, grpc: "127.0.0.1:1"}}}}
    models: {{words: {{task: translate, served_by: [{{endpoint: there}}]}}}}
    """
    with pytest.raises(ConfigError, match="kind triton cannot serve task translate"):
        parse(document)


def test_a_name_and_a_path_stand_for_one_operation() -> None:
    with pytest.raises(ValueError, match="translations"):
        register_operation(TRANSLATIONS)
    with pytest.raises(ValueError, match="lines"):
        register_kind(LINES)
    assert by_path()["/v1/translations"] is TRANSLATIONS
