"""What comes back is read where the settings ask for that, through real gateways and servers."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.live import LiveGateway, serving, wait_until
from tests.scenarios.repeating_cloud import repeating_cloud
from tests.scenarios.scripted_server import Part, ScriptedServer, scripted_server, sent

EMAIL = "maria.keller@posteo.de"
PARTLY = "maria.kel"
CARD = "4111 1111 1111 1111"
SAFE = "The trams run until one in the morning, and the last one is often full of singing people."
LONGEST = 20_000  # characters that are read
Document = dict[str, Any]


def chunk(index: int = 0, finish: str | None = None, **delta: Any) -> Document:
    choice = {"index": index, "delta": delta, "finish_reason": finish}
    return {"id": "x", "object": "chat.completion.chunk", "choices": [choice]}


def streamed(text: str, size: int = 3) -> list[Part]:
    """A chat answer that comes in pieces of so many characters."""
    pieces = [text[at : at + size] for at in range(0, len(text), size)]
    events = [sent(chunk(content=piece)) for piece in pieces]
    return [*events, sent(chunk(finish="stop")), b"data: [DONE]\n\n"]


def whole(text: str, **more: Any) -> list[Part]:
    message = {"role": "assistant", "content": text, **more}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    return [json.dumps({"id": "x", "object": "chat.completion", "choices": [choice]}).encode()]


def tool_call(arguments: str) -> Document:
    function = {"name": "send_mail", "arguments": arguments}
    return {"index": 0, "id": "call_1", "type": "function", "function": function}


def response(*items: Document) -> Document:
    return {
        "id": "resp_1", "object": "response", "status": "completed",
        "instructions": f"Never write to {EMAIL}.", "output": list(items),
    }  # fmt: skip


def said(text: str) -> Document:
    return {
        "type": "message", "id": "msg_1", "role": "assistant",
        "content": [{"type": "output_text", "text": text, "annotations": []}],
    }  # fmt: skip


def response_events(text: str) -> list[Document]:
    place = {"item_id": "msg_1", "output_index": 0, "content_index": 0}
    pieces = [text[at : at + 4] for at in range(0, len(text), 4)]
    events: list[Document] = [{"type": "response.created", "response": response()}]
    events += [{"type": "response.output_text.delta", **place, "delta": p} for p in pieces]
    events.append({"type": "response.output_text.done", **place, "text": text})
    events.append({"type": "response.completed", "response": response(said(text))})
    return [{**event, "sequence_number": at} for at, event in enumerate(events)]


@dataclass
class Site:
    """A gateway between a server on the premises and one in the cloud, which say the same."""

    gateway: LiveGateway
    cloud: ScriptedServer = field(repr=False)
    onprem: ScriptedServer = field(repr=False)
    asked: int = 0

    def answers(self, question: str, parts: Sequence[Part]) -> None:
        for server in (self.cloud, self.onprem):
            server.script[question] = parts

    def post(self, path: str, body: Document, key: str = "plain") -> httpx.Response:
        return self.gateway.client.post(
            f"/v1/{path}", json=body, headers={"authorization": f"Bearer {key}"}
        )

    def chat(
        self, parts: Sequence[Part], key: str = "plain", model: str = "far", **more: Any
    ) -> tuple[str, httpx.Response]:
        """A conversation of its own whose first answer is this; its question, and the answer."""
        self.asked += 1
        question = f"Question {self.asked} about trams"
        self.answers(question, parts)
        messages = [{"role": "user", "content": question}]
        return question, self.post("chat/completions", {
            "model": model, "messages": messages, **more}, key)  # fmt: skip

    def next_turn(self, question: str, model: str = "both") -> httpx.Response:
        """It goes on, and repeats nothing of the answer."""
        self.answers("Thank you", whole("You are welcome."))
        messages = [
            {"role": "user", "content": question},
            {"role": "assistant", "content": "I see."},
            {"role": "user", "content": "Thank you"},
        ]
        return self.post("chat/completions", {"model": model, "messages": messages})

    def infer(self, said: str, key: str) -> httpx.Response:
        """A call with tensors, whose answer is this text."""
        self.asked += 1
        question = f"Tensor {self.asked}"
        output = {"name": "text", "datatype": "BYTES", "shape": [1], "data": [said]}
        self.answers(question, [json.dumps({"model_name": "words", "outputs": [output]}).encode()])
        given = {"name": "text", "datatype": "BYTES", "shape": [1], "data": [question]}
        return self.gateway.client.post(
            "/v2/models/words/infer",
            json={"inputs": [given]},
            headers={"authorization": f"Bearer {key}"},
        )

    def finding(self, answer: httpx.Response) -> Document:
        """The record of what was found in an answer, once it is there."""
        records: list[Document] = []

        def recorded() -> bool:
            records[:] = self.answer_records(answer)
            return bool(records)

        wait_until(recorded, 10.0)
        assert len(records) == 1
        return records[0]

    def answer_records(self, answer: httpx.Response) -> list[Document]:
        """Of one call."""
        records = map(json.loads, self.gateway.audited().splitlines())
        call = answer.headers["x-request-id"]
        return [r for r in records if r["kind"] == "answer" and r["id"] == call]

    def metric(self, line: str) -> float:
        values = [m for m in self.gateway.metrics().splitlines() if m.startswith(line + " ")]
        return float(values[0].rpartition(" ")[2]) if values else 0.0


def _site(scratch: Path, answers: str) -> Iterator[Site]:
    with scripted_server() as cloud, scripted_server() as onprem, repeating_cloud() as parrot:
        document: Document = {
            "listen": {"http_port": 0, "grpc_port": 0},
            "audit": {"directory": str(scratch / "audit")},
            "endpoints": {
                "cloud": {"kind": "openai", "zone": "cloud", "url": cloud.url},
                "house": {"kind": "openai", "zone": "onprem", "url": onprem.url},
                "parrot": {"kind": "openai", "zone": "cloud", "url": parrot.url},
                "tensors": {"kind": "kserve", "zone": "onprem", "url": onprem.url},
            },
            "models": {
                "far": {"task": "generate", "served_by": [{"endpoint": "cloud"}]},
                "echo": {
                    "task": "generate",
                    "pseudonymise": True,
                    "served_by": [{"endpoint": "parrot"}],
                },
                "words": {"text_inputs": ["text"], "served_by": [{"endpoint": "tensors"}]},
                "both": {
                    "task": "generate",
                    "served_by": [{"endpoint": "house"}, {"endpoint": "cloud"}],
                },
            },
            "classify": {"answers": answers, "max_scan_bytes": LONGEST},
            "keys": {},
        }
        for name, masks in (("plain", False), ("masked", True)):
            (scratch / name).write_text(name)
            document["keys"][name] = {
                "key": f"${{file:{scratch / name}}}", "tenant": "t",
                "pseudonymise": True, "mask_answers": masks and answers != "off",
            }  # fmt: skip
        with serving(document, scratch) as gateway:
            yield Site(gateway, cloud, onprem)


@pytest.fixture(scope="module")
def off(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    yield from _site(tmp_path_factory.mktemp("off"), "off")


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    yield from _site(tmp_path_factory.mktemp("report"), "report")


@pytest.fixture(scope="module")
def restricts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    yield from _site(tmp_path_factory.mktemp("restrict"), "restrict")


def text_of(answer: httpx.Response) -> str:
    """What a chat answer says, whole or streamed."""
    assert answer.status_code == 200, answer.text
    if not answer.headers["content-type"].startswith("text/event-stream"):
        content = answer.json()["choices"][0]["message"]["content"]
        assert isinstance(content, str)
        return content
    lines = [line[6:] for line in answer.text.splitlines() if line.startswith("data: ")]
    assert lines[-1] == "[DONE]"
    deltas = [json.loads(line)["choices"][0]["delta"] for line in lines[:-1]]
    return "".join(delta.get("content", "") for delta in deltas)


def is_restricted(site: Site, answer: httpx.Response, reason: str = "tainted") -> bool:
    if answer.headers.get("x-spillway-sensitivity") != "restricted":
        return False
    assert answer.headers["x-spillway-zone"] == "onprem"
    record = site.gateway.record(answer.headers["x-request-id"])
    return bool(record["classify_reason"] == reason)


def test_without_the_setting_no_answer_is_read(off: Site) -> None:
    question, answer = off.chat(whole(f"Write to {EMAIL}."))
    assert text_of(answer) == f"Write to {EMAIL}."
    assert off.gateway.record(answer.headers["x-request-id"])
    assert off.answer_records(answer) == []
    assert not is_restricted(off, off.next_turn(question))
    assert "spillway_answers_read_total{" not in off.gateway.metrics()


@pytest.mark.parametrize("stream", [False, True])
def test_findings_are_counted_and_their_conversation_goes_on(reports: Site, stream: bool) -> None:
    line = 'spillway_answer_entities_total{part="text",type="EMAIL_ADDRESS",zone="cloud"}'
    before = reports.metric(line)
    text = f"{SAFE} Write to {EMAIL}."
    parts = streamed(text) if stream else whole(text)
    question, answer = reports.chat(parts, stream=stream)
    assert text_of(answer) == text
    finding = reports.finding(answer)
    assert finding["answer_reason"] == "entities"
    assert finding["answer_entities"] == {"EMAIL_ADDRESS": 1}
    assert finding["zone"] == "cloud"
    assert EMAIL not in json.dumps(finding)
    assert reports.metric(line) == before + 1
    assert not is_restricted(reports, reports.next_turn(question))


@pytest.mark.parametrize("stream", [False, True])
def test_a_clear_answer_leaves_no_record(restricts: Site, stream: bool) -> None:
    line = 'spillway_answers_read_total{result="clear",zone="cloud"}'
    before = restricts.metric(line)
    parts = streamed(SAFE) if stream else whole(SAFE)
    question, answer = restricts.chat(parts, stream=stream)
    assert text_of(answer) == SAFE
    assert restricts.metric(line) == before + 1
    assert restricts.gateway.record(answer.headers["x-request-id"])
    assert restricts.answer_records(answer) == []
    assert not is_restricted(restricts, restricts.next_turn(question))


@pytest.mark.parametrize("stream", [False, True])
def test_a_conversation_stays_once_its_answer_held_restricted_data(
    restricts: Site, stream: bool
) -> None:
    parts = streamed(f"Write to {EMAIL}.") if stream else whole(f"Write to {EMAIL}.")
    question, answer = restricts.chat(parts, stream=stream)
    assert text_of(answer) == f"Write to {EMAIL}."
    assert is_restricted(restricts, restricts.next_turn(question))
    refused = restricts.next_turn(question, model="far")
    assert refused.status_code == 503


@pytest.mark.parametrize("stream", [False, True])
def test_identifiers_in_tool_calls_are_reported_apart(reports: Site, stream: bool) -> None:
    call = tool_call(json.dumps({"to": EMAIL, "text": "hello"}))
    if stream:
        arguments = call["function"]["arguments"]
        head = {**call, "function": {"name": "send_mail", "arguments": arguments[:12]}}
        rest = {"index": 0, "function": {"arguments": arguments[12:]}}
        parts: list[Part] = [sent(chunk(tool_calls=[head]), chunk(tool_calls=[rest]))]
        parts += [sent(chunk(finish="tool_calls")), b"data: [DONE]\n\n"]
    else:
        parts = whole(SAFE, tool_calls=[call])
    _, answer = reports.chat(parts, stream=stream)
    finding = reports.finding(answer)
    assert finding["tool_call_entities"] == {"EMAIL_ADDRESS": 1}
    assert finding["answer_entities"] == {}
    assert reports.metric(
        'spillway_answer_entities_total{part="tool_call",type="EMAIL_ADDRESS",zone="cloud"}'
    )


@pytest.mark.parametrize("size", [1, 3, 7, 1000])
@pytest.mark.parametrize("stream", [False, True])
def test_a_caller_that_may_not_see_them_gets_masks(reports: Site, stream: bool, size: int) -> None:
    text = f"{SAFE} Write to {EMAIL} and pay with {CARD}, please. {SAFE}"
    parts = streamed(text, size) if stream else whole(text)
    _, answer = reports.chat(parts, "masked", stream=stream)
    assert text_of(answer) == text.replace(EMAIL, "[EMAIL_ADDRESS]").replace(CARD, "[CREDIT_CARD]")
    finding = reports.finding(answer)
    assert finding["masked"] == 2
    assert not finding["withheld"]


def test_an_address_is_masked_where_the_verdict_finds_it(reports: Site) -> None:
    text = "I need a 'Plus' type Uber from 221B Baker Street, Berkeley, CA, USA, and I can wait."
    _, answer = reports.chat(whole(text), "masked")
    assert text_of(answer) == text.replace("221B Baker Street", "[STREET_ADDRESS]")


def test_others_see_the_same_answer_as_it_is(reports: Site) -> None:
    text = f"Write to {EMAIL} or pay with {CARD}."
    _, answer = reports.chat(streamed(text), stream=True)
    assert text_of(answer) == text


def test_a_finding_that_a_pause_cuts_is_masked_whole(reports: Site) -> None:
    before, rest = f"{SAFE} Write to {PARTLY}", EMAIL.removeprefix(PARTLY) + " please."
    parts = [sent(chunk(content=before)), 1.5, sent(chunk(content=rest)), *streamed("")]
    _, answer = reports.chat(parts, "masked", stream=True)
    assert text_of(answer) == f"{SAFE} Write to [EMAIL_ADDRESS] please."


def test_text_is_not_held_longer_than_it_has_to_be(reports: Site) -> None:
    """What no finding can begin in goes while the server says nothing for a while."""
    parts = [sent(chunk(content=f"{SAFE} and so on ")), 2.0, *streamed("and on.")]
    reports.answers("Go on", parts)
    body = {"model": "far", "stream": True, "messages": [{"role": "user", "content": "Go on"}]}
    with reports.gateway.client.stream(
        "POST", "/v1/chat/completions", json=body, headers={"authorization": "Bearer masked"}
    ) as answer:
        first = next(answer.iter_lines())
        assert "data: [DONE]" not in first
        assert "The trams run" in first
        assert not reports.cloud.left.is_set()


@pytest.mark.parametrize("key", ["plain", "masked"])
@pytest.mark.parametrize("stream", [False, True])
def test_responses_are_read_and_masked_like_chat(restricts: Site, stream: bool, key: str) -> None:
    text = f"{SAFE} Write to {EMAIL}."
    question = f"Response {stream} {key}"
    events = response_events(text)
    parts = [sent(e) for e in events] if stream else [json.dumps(response(said(text))).encode()]
    restricts.answers(question, parts)
    answer = restricts.post("responses", {"model": "far", "input": question, "stream": stream}, key)
    assert answer.status_code == 200, answer.text
    output = answer.text.replace(f"Never write to {EMAIL}.", "")  # of the call, which it repeats
    shown = text.replace(EMAIL, "[EMAIL_ADDRESS]")
    assert (EMAIL in output) == (key == "plain")
    if stream:
        documents = [json.loads(x[6:]) for x in answer.text.splitlines() if x.startswith("data: ")]
        assert [d["type"] for d in documents] == [e["type"] for e in events]
        deltas = "".join(d["delta"] for d in documents if "delta" in d)
        assert deltas == (text if key == "plain" else shown)
    finding = restricts.finding(answer)
    assert finding["answer_entities"] == {"EMAIL_ADDRESS": 1}
    said_before: list[Document] = [
        {"role": "user", "content": question},
        {"role": "assistant", "content": "I see."},
        {"role": "user", "content": "Thank you"},
    ]
    restricts.answers("Thank you", [json.dumps(response(said("Bye"))).encode()])
    later = restricts.post("responses", {"model": "both", "input": said_before})
    assert is_restricted(restricts, later)


@pytest.mark.parametrize("key", ["plain", "masked"])
@pytest.mark.parametrize("stream", [False, True])
def test_completions_are_read_and_masked_like_chat(reports: Site, stream: bool, key: str) -> None:
    text = f"{SAFE} Write to {EMAIL}."
    question = f"Completion {stream} {key}"
    pieces = [text[at : at + 5] for at in range(0, len(text), 5)] if stream else [text]
    documents = [
        {"id": "x", "object": "text_completion", "choices": [
            {"index": 0, "text": piece, "finish_reason": None if stream else "stop"}]}
        for piece in pieces
    ]  # fmt: skip
    if stream:
        last = {"index": 0, "text": "", "finish_reason": "stop"}
        parts: list[Part] = [*(sent(d) for d in documents), sent({"id": "x", "choices": [last]})]
        parts.append(b"data: [DONE]\n\n")
    else:
        parts = [json.dumps(documents[0]).encode()]
    reports.answers(question, parts)
    body = {"model": "far", "prompt": question, "stream": stream}
    answer = reports.post("completions", body, key)
    lines = [x[6:] for x in answer.text.splitlines() if x.startswith("data: {")]
    given = [json.loads(x) for x in lines] if stream else [answer.json()]
    shown = "".join(d["choices"][0]["text"] for d in given)
    assert shown == (text if key == "plain" else text.replace(EMAIL, "[EMAIL_ADDRESS]"))
    assert reports.finding(answer)["answer_entities"] == {"EMAIL_ADDRESS": 1}


@pytest.mark.parametrize(
    ("parts", "reason"),
    [
        (whole(SAFE * (LONGEST // len(SAFE) + 1)), "over_cap"),
        ([b'{"id": "x", "choices": [{"message": {"content": "a", "content": "b"}}]}'],
         "answer_broken"),
        (whole(SAFE, audio={"id": "a", "data": "AAAA", "transcript": "So."}), "answer_audio"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_counts_as_restricted(
    restricts: Site, parts: Sequence[Part], reason: str
) -> None:
    question, answer = restricts.chat(parts)
    assert answer.content == b"".join(p for p in parts if isinstance(p, bytes))
    assert restricts.finding(answer)["answer_reason"] == reason
    assert is_restricted(restricts, restricts.next_turn(question))
    _, refused = restricts.chat(parts, "masked")
    assert refused.status_code == 403
    assert refused.headers["x-spillway-reason"] == "answer_withheld"
    assert refused.json()["error"]["code"] == "answer_withheld"


def test_a_broken_event_ends_the_stream_of_a_caller_that_sees_masks(reports: Site) -> None:
    twice = b'data: {"choices": [{"index": 0, "delta": {"content": "a", "content": "b"}}]}\n\n'
    parts = [*streamed(SAFE)[:-2], twice, *streamed(SAFE)]
    _, answer = reports.chat(parts, "masked", stream=True)
    lines = [x for x in answer.text.splitlines() if x.startswith("data: ")]
    assert "[DONE]" not in answer.text
    assert json.loads(lines[-1][6:])["error"]["code"] == "answer_withheld"
    assert all("error" not in json.loads(line[6:]) for line in lines[:-1])
    assert reports.finding(answer)["withheld"]


def test_names_in_fields_far_apart_are_masked_or_withheld(reports: Site) -> None:
    fields = json.dumps({"given_name": "Maria", "plan": "B", "family_name": "Kellermann"})
    _, plain = reports.chat(whole(fields))
    assert reports.finding(plain)["answer_entities"].keys() == {"PERSON"}
    _, answer = reports.chat(whole(fields), "masked")
    assert "Kellermann" not in answer.text


def test_what_a_caller_has_seen_counts_when_it_leaves(restricts: Site) -> None:
    first = sent(chunk(content=f"Write to {EMAIL} "))
    rest: list[Part] = [sent(chunk(content="and more ")), 0.2]
    parts = [first, 1.0, *rest * 20, *streamed("")]
    restricts.answers("Leave", parts)
    body = {"model": "far", "stream": True, "messages": [{"role": "user", "content": "Leave"}]}
    with restricts.gateway.client.stream(
        "POST", "/v1/chat/completions", json=body, headers={"authorization": "Bearer plain"}
    ) as answer:
        assert EMAIL in next(answer.iter_lines())
    assert restricts.cloud.left.wait(20)
    wait_until(lambda: is_restricted(restricts, restricts.next_turn("Leave")), 10.0)


def test_each_choice_and_what_is_said_before_it_is_masked_by_itself(reports: Site) -> None:
    """Pieces of two choices in turns, each after some reasoning that ends with a name."""
    thought, text = "The user is called Maria Keller", f"Write to {EMAIL}."
    parts: list[Part] = []
    for key, whole_text in (("reasoning_content", thought), ("content", text)):
        for at in range(0, len(whole_text), 3):
            piece = {key: whole_text[at : at + 3]}
            parts += [sent(chunk(0, **piece), chunk(1, **piece))]
    parts += [sent(chunk(0, "stop"), chunk(1, "stop")), b"data: [DONE]\n\n"]
    _, answer = reports.chat(parts, "masked", stream=True, n=2)
    lines = [x[6:] for x in answer.text.splitlines() if x.startswith("data: {")]
    choices = [json.loads(line)["choices"][0] for line in lines]
    for index in (0, 1):
        deltas = [c["delta"] for c in choices if c["index"] == index]
        thoughts = "".join(d.get("reasoning_content", "") for d in deltas)
        assert thoughts == "The user is called [PERSON]"
        assert "".join(d.get("content", "") for d in deltas) == "Write to [EMAIL_ADDRESS]."


def test_texts_in_tensors_are_read_and_withheld(reports: Site) -> None:
    plain = reports.infer(f"Write to {EMAIL}.", "plain")
    assert EMAIL in plain.text
    assert reports.finding(plain)["answer_entities"] == {"EMAIL_ADDRESS": 1}
    assert reports.infer(SAFE, "masked").json()["outputs"][0]["data"] == [SAFE]
    refused = reports.infer(f"Write to {EMAIL}.", "masked")
    assert refused.status_code == 403
    assert refused.headers["x-spillway-reason"] == "answer_withheld"
    assert EMAIL not in refused.text


@pytest.mark.parametrize("stream", [False, True])
def test_a_conversation_that_leaves_with_surrogates_goes_on_with_them(
    restricts: Site, stream: bool
) -> None:
    """Its answers hold the originals again, and are read so."""
    messages: list[Document] = []
    for _ in range(2):
        messages.append(
            {"role": "user", "content": f"Write to {EMAIL} once more, {len(messages)}."}
        )
        answer = restricts.post(
            "chat/completions", {"model": "echo", "messages": messages, "stream": stream}
        )
        assert answer.headers["x-spillway-pseudonymised"] == "1"
        assert text_of(answer) == messages[-1]["content"]
        assert restricts.finding(answer)["answer_entities"] == {"EMAIL_ADDRESS": 1}
        messages.append({"role": "assistant", "content": text_of(answer)})
    body = {"model": "echo", "messages": messages[:3], "stream": stream}
    answer = restricts.post("chat/completions", body, "masked")
    assert text_of(answer) == messages[2]["content"].replace(EMAIL, "[EMAIL_ADDRESS]")
