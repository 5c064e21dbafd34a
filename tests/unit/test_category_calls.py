"""Calls of the operator's categories through a whole gateway: where they go, and what is said."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from gateway.__main__ import main
from gateway.accounting.live import words
from tests.unit.backends import wire_rig
from tests.unit.classify import category_rig as rig
from tests.unit.whole_gateway import records, serving

pytestmark = pytest.mark.anyio

ANSWER = json.dumps({"id": "1", "object": "chat.completion", "choices": []}).encode()


@asynccontextmanager
async def chatting(
    scratch: Path, categories: dict[str, Any], **classify: Any
) -> AsyncIterator[tuple[httpx.AsyncClient, list[str]]]:
    received: list[str] = []

    async def provider(peer: wire_rig.Peer) -> None:
        while True:
            head, _, body = (await peer.request()).partition(b"\r\n\r\n")
            if head.startswith(b"POST "):
                received.append(json.loads(body)["messages"][0]["content"])
            await peer.say(wire_rig.answer(ANSWER, extra=b"content-type: application/json\r\n"))

    async with wire_rig.listening(provider) as server:
        endpoint = {"kind": "openai", "zone": "cloud", "url": f"http://127.0.0.1:{server.port}/v1"}
        served = {"endpoint": "away", "price_usd": 0.001}
        classify |= {"names": {"engine": "off"}, "categories": categories}
        async with serving(
            scratch,
            {"away": endpoint},
            {"chat": {"task": "generate", "served_by": [served]}},
            classify=classify,
        ) as client:
            yield client, received


def strings(settings: dict[str, Any]) -> dict[str, Any]:
    return {key: str(value) for key, value in settings.items()}


def body(text: str) -> dict[str, Any]:
    return {"model": "chat", "messages": [{"role": "user", "content": text}]}


async def test_a_call_of_a_category_stays_and_its_record_says_which(tmp_path: Path) -> None:
    people = strings(rig.table(tmp_path, ["Maria Keller"]))
    bank = strings(rig.table(tmp_path, ["Blue Harbor"], "projects")) | {"action": "label"}
    async with chatting(tmp_path, {"people": people, "projects": bank}) as (client, received):
        texts = ("hello", "on blue-harbor", "ask MARIA keller")
        codes = [
            (await client.post("/v1/chat/completions", json=body(t))).status_code for t in texts
        ]
        explained = await client.post(
            "/spillway/explain", json={"path": "/v1/chat/completions", "body": body(texts[2])}
        )
        metrics = (await client.get("/metrics")).text
    assert codes == [200, 200, 503]
    assert received == [*texts[:2]]
    made = [(r["classify_reason"], r["entities"]) for r in records(tmp_path)]
    assert made[:3] == [
        ("clear", {}),
        ("clear", {"category:projects": 1}),
        ("category:people", {"category:people": 1}),
    ]
    assert explained.json()["classify_reason"] == "category:people"
    assert explained.json()["entities"] == {"category:people": 1}
    assert 'spillway_entities_total{type="category:projects"} 1.0' in metrics
    assert "people" in words.verdict("category:people")


async def test_a_call_near_to_examples_stays(tmp_path: Path) -> None:
    zebra = strings(rig.by_examples(tmp_path))
    model = str(rig.model(tmp_path / "1"))
    async with chatting(tmp_path, {"zebra": zebra}, embeddings=model) as (client, received):
        texts = ("Why is the sea salty?", "dates of the zebra project")
        codes = [
            (await client.post("/v1/chat/completions", json=body(t))).status_code for t in texts
        ]
    assert codes == [200, 503]
    assert received == [texts[0]]


# The commands


def settings_file(scratch: Path, categories: dict[str, Any], **classify: Any) -> Path:
    path = scratch / "spillway.yaml"
    document = {
        "classify": {"categories": categories, **classify},
        "endpoints": {"gpu": {"kind": "openai", "zone": "onprem", "url": "http://127.0.0.1:9"}},
        "models": {"chat": {"task": "generate", "served_by": [{"endpoint": "gpu"}]}},
    }
    path.write_text(json.dumps(document))
    return path


def test_classify_says_how_near_each_line_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    its = strings(rig.by_examples(tmp_path, action="label"))
    config = settings_file(tmp_path, {"zebra": its}, embeddings=str(rig.model(tmp_path / "1")))
    lines = tmp_path / "lines.jsonl"
    texts = ("dates of the zebra project", "Why is the sea salty?")
    lines.write_text("\n".join(json.dumps({"id": t, "text": t}) for t in texts))
    args = ["classify", "--jsonl", str(lines), "--config", str(config), "--category"]
    assert main([*args, "zebra", "--json"]) == 0
    out, err = capsys.readouterr()
    near, far = map(json.loads, out.splitlines())
    assert (near["id"], near["verdict"], far["verdict"]) == (texts[0], "labelled", "clear")
    assert near["score"] >= near["threshold"] == far["threshold"] > far["score"]
    told = json.loads(err.splitlines()[0])
    assert (told["category"], told["examples"], told["near"]) == ("zebra", 6, 6)
    assert json.loads(err.splitlines()[-1])["labelled"] == 1
    assert main([*args, "giraffe"]) == 2
    assert "there are: zebra" in capsys.readouterr().err


def test_values_makes_a_table_that_the_gateway_reads(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    column = tmp_path / "people.csv"
    column.write_text('id,name\n1,"Keller, Maria"\n2,ab\n', "utf-8")
    key, out = tmp_path / "people.key", tmp_path / "people.values"
    args = ["values", str(column), "--column", "name", "--key", str(key), "--out", str(out)]
    assert main([*args, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"values": 1, "too_short": 1}
    assert [path.stat().st_mode & 0o777 for path in (key, out)] == [0o600, 0o600]
    assert b"keller" not in out.read_bytes().lower()
    before = key.read_text()
    assert main(args) == 0
    assert key.read_text() == before
    capsys.readouterr()
    config = settings_file(tmp_path, {"people": {"values": str(out), "key_file": str(key)}})
    lines = tmp_path / "lines.jsonl"
    lines.write_text('{"id": 1, "text": "ask keller-maria"}\n')
    args = ["classify", "--jsonl", str(lines), "--config", str(config), "--category", "people"]
    assert main(args) == 0
    assert json.loads(capsys.readouterr().out)["verdict"] == "restricted"


@pytest.mark.parametrize(
    ("column", "rows", "why"),
    [
        ("surname", "id,name\n1,Maria Keller\n", "no column 'surname'"),
        ("id", "id\n1\n", "no value"),
    ],
)
def test_values_says_what_it_cannot_take(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], column: str, rows: str, why: str
) -> None:
    path = tmp_path / "people.csv"
    path.write_text(rows)
    args = ["--key", str(tmp_path / "key"), "--out", str(tmp_path / "out")]
    assert main(["values", str(path), "--column", column, *args]) == 2
    assert why in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("category", "why"),
    [
        ({}, "takes one of examples and values"),
        ({"examples": "FILE", "values": "FILE", "key_file": "FILE"}, "takes one of"),
        ({"values": "FILE"}, "belong together"),
        ({"values": "FILE", "key_file": "FILE", "threshold": 0.5}, "only examples have one"),
        ({"examples": "FILE"}, "says nothing without classify.embeddings"),
    ],
)
def test_check_refuses_what_contradicts_itself(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], category: dict[str, Any], why: str
) -> None:
    file = tmp_path / "file"
    file.touch()
    its = {key: str(file) if value == "FILE" else value for key, value in category.items()}
    assert main(["check", "--file-only", str(settings_file(tmp_path, {"x": its}))]) == 2
    assert why in capsys.readouterr().err


def test_check_refuses_a_model_that_is_not_on_the_premises(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    its = strings(rig.by_examples(tmp_path))
    config = settings_file(tmp_path, {"x": its}, embeddings="https://example.com/minilm/1")
    assert main(["check", "--file-only", str(config)]) == 2
    assert "classify.embeddings" in capsys.readouterr().err


def test_check_refuses_too_few_examples(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "few.txt"
    path.write_text("one\ntwo\n")
    model = str(rig.model(tmp_path / "1"))
    config = settings_file(tmp_path, {"x": {"examples": str(path)}}, embeddings=model)
    assert main(["check", str(config)]) == 2
    assert "2 examples, 5 to 500" in capsys.readouterr().err
