"""Restricted calls that may leave with surrogates, through the real gateway to a recording cloud.

The on-prem endpoint costs five dollars a call and the cloud next to nothing: what may leave does.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import httpx
import openai
import pytest

from gateway.demo.cloud.process import SimulatedCloud
from tests.live import LiveGateway, LoopThread, serving, settings, simulated_cloud
from tests.properties.named_calls import fold
from tests.scenarios.repeating_cloud import RepeatingCloud, repeating_cloud

EMAIL = "maria.keller@posteo.de"
CARD = "4111 1111 1111 1111"
PHONE = "+49 176 12345678"
TEXT = f"Write to {EMAIL}, charge {CARD} and call {PHONE}. Then {EMAIL.upper()} again."
SECRET = "ghp_" + "0123456789abcdefghijklmnopqrstuvwxyz"
DOCUMENTS = 250  # a thousand, without the sockets, in tests/unit/pseudonyms


@dataclass
class House:
    gateway: LiveGateway
    cloud: SimulatedCloud = field(repr=False)
    repeating: RepeatingCloud = field(repr=False)
    loop: LoopThread = field(repr=False)

    def chat(self, text: str, key: str = "allowed", **more: Any) -> httpx.Response:
        headers = more.pop("headers", {})
        body = {"model": "parrot", "messages": [{"role": "user", "content": text}], **more}
        return self.gateway.client.post(
            "/v1/chat/completions", json=body, headers={"authorization": f"Bearer {key}", **headers}
        )

    def record(self, told: httpx.Response) -> dict[str, Any]:
        return self.gateway.record(told.headers["x-request-id"])

    def reached_a_cloud(self, *values: str) -> list[Any]:
        needles = [form for v in values for form in (v, v.replace(" ", ""))]
        bodies = b"\n".join(self.repeating.bodies)
        return [n for n in needles if n.encode() in bodies] + list(
            self.loop.run(self.cloud.search(needles))
        )

    def metric(self, line: str) -> float:
        found = [m for m in self.gateway.metrics().splitlines() if m.startswith(line + " ")]
        return float(found[0].rpartition(" ")[2]) if found else 0.0


@pytest.fixture(scope="module")
def house(loop_thread: LoopThread, tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    scratch = tmp_path_factory.mktemp("pseudonyms")
    with simulated_cloud(loop_thread) as cloud, repeating_cloud() as repeating:
        document = _settings(cloud, repeating, scratch)
        with serving(document, scratch) as gateway:
            yield House(gateway, cloud, repeating, loop_thread)


def _settings(cloud: SimulatedCloud, repeating: RepeatingCloud, scratch: Path) -> dict[str, Any]:
    document = settings(cloud, scratch, log={"level": "debug"}, routing={"policy": "static_split"})
    document["endpoints"]["repeating"] = {
        "kind": "openai", "zone": "cloud", "url": repeating.url, "expected_ms": 5,
    }  # fmt: skip
    scribe = document["models"]["scribe"]
    scribe["pseudonymise"] = True
    onprem = {**scribe["served_by"][0], "model": "scribe", "substitute": True}
    parrot = {**scribe, "served_by": [onprem, {"endpoint": "repeating"}]}
    document["models"] |= {"parrot": parrot, "stubborn": {**parrot, "pseudonymise": False}}
    document["models"]["poems"] = {
        **{k: v for k, v in parrot.items() if k != "pseudonymise"},
        "public": True, "public_reason": "a corpus of poems",
    }  # fmt: skip
    document["keys"] = {}
    for name, allowed in (("allowed", True), ("plain", False)):
        (scratch / name).write_text(name)
        document["keys"][name] = {
            "key": f"${{file:{scratch / name}}}", "tenant": "t", "pseudonymise": allowed,
        }  # fmt: skip
    return document


def left(house: House, told: httpx.Response, count: int) -> None:
    assert told.status_code == 200, told.text
    assert told.headers["x-spillway-zone"] == "cloud"
    assert told.headers["x-spillway-sensitivity"] == "clear"
    assert told.headers["x-spillway-pseudonymised"] == str(count)


def stayed(house: House, told: httpx.Response, reason: str = "entities") -> None:
    assert told.status_code == 200, told.text
    assert told.headers["x-spillway-zone"] == "onprem"
    assert told.headers["x-spillway-sensitivity"] == "restricted"
    assert "x-spillway-pseudonymised" not in told.headers
    record = house.record(told)
    assert record["classify_reason"] == reason
    assert record["pseudonymised"] == {}
    assert record["zones"] == ["onprem"]


def test_a_call_leaves_with_surrogates_and_its_answer_has_the_originals(house: House) -> None:
    before = len(house.repeating.bodies)
    told = house.chat(TEXT)
    left(house, told, 3)
    assert told.json()["choices"][0]["message"]["content"] == TEXT
    (sent,) = house.repeating.documents[before:]
    masked = sent["messages"][0]["content"]
    assert "@example." in masked
    assert masked.count("4000 00") == 1
    assert not house.reached_a_cloud(EMAIL, CARD, PHONE)


def test_a_name_that_is_found_at_the_door_leaves_as_another(house: House) -> None:
    text = "Please write a short reply to Thomas Becker, who asked about his invoice."
    told = house.chat(text)
    left(house, told, 1)
    assert told.json()["choices"][0]["message"]["content"] == text
    assert house.record(told)["pseudonymised"] == {"PERSON": 1}
    assert not house.reached_a_cloud("Thomas", "Becker")


TWICE = "Please write a short reply to Thomas Lindenbaum, who asked about his invoice. "


@pytest.mark.parametrize(
    "more",
    [
        "Mr Lindenbaum waits.", "lindenbaum waits", "Lindenbaums Brief, Lindenbaum's letter",
        "See https://x.example/in/thomas-lindenbaum and @tlindenbaum7.", "cv_Lindenbaum_2024.pdf",
        "T. Lindenbaum", "Thomas K. Lindenbaum called, and Lindenbaum calls again",
        '{"text": "Dear\\nLindenbaum,\\nbye"}', '{"name": "Thomas L\\u0069ndenbaum"}',
        "Linden\u00adbaum or Linden\u200bbaum", "Lindenbaumowi, Lindenbauma",
    ],
)  # fmt: skip
def test_nothing_of_a_name_stays_elsewhere_in_the_call(house: House, more: str) -> None:
    before = len(house.repeating.bodies)
    told = house.chat(TWICE + more)
    assert told.headers["x-spillway-zone"] == "cloud", house.record(told)
    assert told.headers["x-spillway-pseudonymised"] in ("1", "2")  # another spelling may count
    (body,) = house.repeating.bodies[before:]
    assert not {root for root in ("thomas", "lindenbaum") if root in fold(body.decode())}
    content = told.json()["choices"][0]["message"]["content"]
    assert fold(content) == fold(TWICE + more)
    assert "x-spillway-unrestored" not in told.headers


def test_nothing_of_a_name_stays_in_the_arguments_of_a_tool_call(house: House) -> None:
    before = len(house.repeating.bodies)
    arguments = json.dumps({"to": "t.lindenbaum", "text": "Dear\nLindenbaum"})
    call = {"id": "t1", "type": "function", "function": {"name": "f", "arguments": arguments}}
    messages = [
        {"role": "user", "content": TWICE},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "t1", "content": "sent to lindenbaum"},
    ]
    told = house.chat("", messages=messages)
    left(house, told, 1)
    (body,) = house.repeating.bodies[before:]
    assert "lindenbaum" not in fold(body.decode())
    assert told.json()["choices"][0]["message"]["content"] == "sent to lindenbaum"


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/completions", {"prompt": TWICE + "Lindenbaum waits.", "max_tokens": 8}),
        ("/v1/responses", {"input": TWICE, "instructions": "Be kind to Lindenbaum."}),
    ],
)
def test_nothing_of_a_name_stays_in_other_operations(
    house: House, path: str, body: dict[str, Any]
) -> None:
    told = house.gateway.client.post(
        path, json={"model": "scribe", **body}, headers={"authorization": "Bearer allowed"}
    )
    left(house, told, 1)
    assert not house.reached_a_cloud("Lindenbaum", "lindenbaum", "Thomas Linden")


def test_a_key_that_holds_a_part_of_a_name_keeps_the_call(house: House) -> None:
    line = 'spillway_pseudonym_doubts_total{reason="left_over"}'
    before = house.metric(line)
    stayed(house, house.chat(TWICE, max_tokens=4, metadata={"lindenbaum_id": "1"}))
    assert house.metric(line) == before + 1
    assert not house.reached_a_cloud("lindenbaum_id")


ESCAPED = '{"name": "J\\u00fcrgen M\\u00fcller", "note": "asked about his invoice"}'
ADDRESS = "Ship it to Lindenstra\u00dfe 17, 80331 M\u00fcnchen, please. Is 80331 right?"


@pytest.mark.parametrize(
    ("text", "roots"),
    [
        (f"Answer the person in {ESCAPED}", ("muller", "jurgen")),
        (ADDRESS, ("linden", "80331", "munchen")),
        ("I live at 221 Barker Street, London NW1 6XE.", ("barker", "nw16xe", "london")),
    ],
)
def test_escaped_names_and_whole_addresses_leave_masked(
    house: House, text: str, roots: tuple[str, ...]
) -> None:
    before = len(house.repeating.bodies)
    told = house.chat(text)
    left(house, told, 1)
    (body,) = house.repeating.bodies[before:]
    assert not {root for root in roots if root in fold(body.decode())}
    assert fold(told.json()["choices"][0]["message"]["content"]) == fold(text)


def test_a_call_with_many_persons_leaves_masked(house: House) -> None:
    people = [f"{given} {family}" for given in GIVEN for family in FAMILIES]
    text = "\n".join(f"- {name} asked about an invoice" for name in people)
    before = len(house.repeating.bodies)
    told = house.chat(f"Sort this list:\n{text}")
    assert told.headers["x-spillway-zone"] == "cloud", house.record(told)
    assert int(told.headers["x-spillway-pseudonymised"]) >= len(people) - 2
    (body,) = house.repeating.bodies[before:]
    sent = fold(body.decode())
    assert not {name for name in (*GIVEN, *FAMILIES) if name.lower() in sent}
    assert told.json()["choices"][0]["message"]["content"].endswith(text)


GIVEN = ("Thomas", "Helena", "Sebastian", "Katarzyna", "Benedikt", "Isabella", "Konstantin")
FAMILIES = (
    "Lindenbaum", "Hoffmann", "Wagenknecht", "Rodrigues", "Petersen", "Castellano", "Whitfield",
    "Szymanski", "Vandenberg", "Marchetti",
)  # fmt: skip


@pytest.fixture
def saying(house: House) -> Iterator[RepeatingCloud]:
    """The cloud, whose words a test may change."""
    yield house.repeating
    house.repeating.says = str


@pytest.mark.parametrize(
    ("says", "answer"),
    [
        (lambda text: text.replace(" ", "-"), CARD.replace(" ", "-")),
        (lambda text: text.replace(" ", ""), CARD.replace(" ", "")),
        (lambda text: f"It ends in {text[-4:]}.", f"It ends in {CARD[-4:]}."),
        (lambda text: f"Not 9{text[-4:]} 1234-{text[-4:]}", None),
    ],
)
def test_a_reformatted_card_is_put_back(
    saying: RepeatingCloud, house: House, says: Callable[[str], str], answer: str | None
) -> None:
    saying.says = says
    told = house.chat(CARD)
    left(house, told, 1)
    content = told.json()["choices"][0]["message"]["content"]
    if answer is None:
        assert CARD[-4:] not in content
    else:
        assert content == answer
    assert "x-spillway-unrestored" not in told.headers


@pytest.mark.parametrize("stream", [False, True])
def test_what_cannot_be_put_back_is_told(
    saying: RepeatingCloud, house: House, stream: bool
) -> None:
    before = house.metric("spillway_pseudonyms_unrestored_total")
    saying.says = lambda text: f"{text[:-5]} and {text}"
    told = house.chat(CARD, stream=stream)
    assert told.status_code == 200
    assert CARD.replace(" ", "")[:12] not in told.text.replace(" ", "").partition("and")[0]
    assert house.metric("spillway_pseudonyms_unrestored_total") == before + 1
    if not stream:  # the headers of a stream are gone by then
        assert told.headers["x-spillway-unrestored"] == "1"


def test_the_record_and_the_metrics_count_and_hold_no_content(house: House) -> None:
    before = house.metric('spillway_pseudonymised_total{type="EMAIL_ADDRESS"}')
    record = house.record(house.chat(TEXT))
    assert record["sensitivity"] == "clear"
    assert record["classify_reason"] == "pseudonymised"
    assert record["pseudonymised"] == {"CREDIT_CARD": 1, "EMAIL_ADDRESS": 1, "PHONE_NUMBER": 1}
    assert record["entities"]["EMAIL_ADDRESS"] >= 1
    assert record["attempts"][0]["zone"] == "cloud"
    after = house.metric('spillway_pseudonymised_total{type="EMAIL_ADDRESS"}')
    assert after == before + 1
    log = house.gateway.log_path.read_bytes() + house.gateway.audited()
    for content in (EMAIL, CARD, PHONE, "@example.", "4000 00"):
        assert content.encode() not in log


def test_a_stream_is_restored_over_the_borders_of_its_pieces(house: House) -> None:
    client = openai.OpenAI(
        base_url=f"{house.gateway.http_url}/v1", api_key="allowed",
        http_client=httpx.Client(trust_env=False),
    )  # fmt: skip
    with (
        client,
        client.chat.completions.create(
            model="parrot", messages=[{"role": "user", "content": TEXT}], stream=True
        ) as stream,
    ):
        chunks = list(stream)
    said = "".join(c.choices[0].delta.content or "" for c in chunks)
    assert said == TEXT
    assert [c.choices[0].finish_reason for c in chunks if c.choices[0].finish_reason] == ["stop"]
    assert stream.response.headers["x-spillway-pseudonymised"] == "3"
    assert not house.reached_a_cloud(EMAIL, CARD, PHONE)


@pytest.mark.parametrize("stream", [False, True])
def test_arguments_of_a_tool_call_have_the_originals(house: House, stream: bool) -> None:
    """The provider takes them from the schema that it is given, where they came as surrogates."""
    parameters = {
        "type": "object",
        "properties": {"to": {"enum": [EMAIL]}, "card": {"enum": [CARD]}},
        "required": ["to", "card"],
    }
    tool = {"type": "function", "function": {"name": "pay", "parameters": parameters}}
    told = house.chat(
        f"pay for {EMAIL}", model="scribe", tools=[tool], tool_choice="required", stream=stream
    )
    left(house, told, 2)
    if stream:
        events = [json.loads(e[6:]) for e in told.text.split("\n\n") if e.startswith("data: {")]
        calls = [c for e in events for c in e["choices"][0]["delta"].get("tool_calls", [])]
        arguments = "".join(c["function"]["arguments"] for c in calls)
        assert events[-1]["choices"][0]["finish_reason"] == "tool_calls"
        assert told.text.endswith("data: [DONE]\n\n")
    else:
        message = told.json()["choices"][0]["message"]
        arguments = message["tool_calls"][0]["function"]["arguments"]
    assert json.loads(arguments) == {"to": EMAIL, "card": CARD}
    assert not house.reached_a_cloud(EMAIL, CARD)


@pytest.mark.parametrize("stream", [False, True])
def test_responses_are_restored(house: House, stream: bool) -> None:
    body = {
        "model": "scribe", "input": "hello", "instructions": f"help {EMAIL}",
        "max_output_tokens": 16, "stream": stream,
    }  # fmt: skip
    headers = {"authorization": "Bearer allowed"}
    told = house.gateway.client.post("/v1/responses", json=body, headers=headers)
    left(house, told, 1)
    assert told.text.count(f"help {EMAIL}") >= 1
    assert "@example." not in told.text
    assert not house.reached_a_cloud(EMAIL)


@pytest.mark.parametrize(
    ("key", "model"), [("plain", "parrot"), ("allowed", "stubborn"), ("plain", "stubborn")]
)
def test_a_call_whose_key_or_model_does_not_allow_it_stays(
    house: House, key: str, model: str
) -> None:
    stayed(house, house.chat(TEXT, key, model=model, max_tokens=4))
    assert not house.reached_a_cloud(EMAIL, CARD, PHONE)


NOTE = "nora.vogel@posteo.de"


@pytest.mark.parametrize("stays", [False, True])
@pytest.mark.parametrize("model", ["poems", "stubborn"])
def test_what_may_leave_with_surrogates_taints_where_there_are_none(
    house: House, model: str, stays: bool
) -> None:
    """Whether the first turn left with them or was served on the premises."""
    question = f"Where does {NOTE} live? {model} {stays}"
    headers = {"x-spillway-placement": "onprem"} if stays else {}
    first = house.chat(question, headers=headers)
    assert first.headers["x-spillway-zone"] == ("onprem" if stays else "cloud")
    turns = [{"role": "user", "content": question}, {"role": "assistant", "content": "There."}]
    turns.append({"role": "user", "content": "Write a poem about it."})
    stayed(house, house.chat("", messages=turns, model=model), "tainted")
    stayed(house, house.chat("", messages=turns, key="plain"), "tainted")
    assert not house.reached_a_cloud(NOTE)


def test_turns_with_surrogates_leave_one_after_the_other(house: House) -> None:
    """The answers bring the originals back, and so does the next turn."""
    turns = [{"role": "user", "content": f"Write to {NOTE}."}]
    for _ in range(3):
        told = house.chat("", messages=turns)
        left(house, told, 1)
        answer = told.json()["choices"][0]["message"]["content"]
        turns += [{"role": "assistant", "content": answer}, {"role": "user", "content": "Again."}]
    assert not house.reached_a_cloud(NOTE)


def test_what_was_found_beside_the_turns_keeps_the_next_one_that_lacks_it(house: House) -> None:
    turns = [{"role": "user", "content": "Where does she live now?"}]
    left(house, house.chat("", messages=turns, metadata={"of": NOTE}), 1)
    turns += [{"role": "assistant", "content": "There."}, {"role": "user", "content": "Since?"}]
    left(house, house.chat("", messages=turns, metadata={"of": NOTE}), 1)
    stayed(house, house.chat("", messages=turns), "tainted")


def test_a_call_that_may_not_leave_stays_as_it_is(house: House) -> None:
    for headers in ({"x-spillway-placement": "onprem"}, {"x-spillway-spill": "never"}):
        stayed(house, house.chat(TEXT, max_tokens=4, headers=headers))
    assert not house.reached_a_cloud(EMAIL, CARD, PHONE)


def test_a_call_with_more_than_findings_stays(house: House) -> None:
    image = {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}}
    parts = [{"type": "text", "text": TEXT}, image]
    told = house.chat("", messages=[{"role": "user", "content": parts}], max_tokens=4)
    assert told.headers.get("x-spillway-zone", "onprem") == "onprem"
    assert house.record(told)["classify_reason"].startswith("unscannable")
    assert house.record(told)["pseudonymised"] == {}
    assert not house.reached_a_cloud(EMAIL, CARD, PHONE)


@pytest.mark.parametrize(
    ("doubt", "said"),
    [
        ("no_surrogate", {"text": f"{EMAIL} has {SECRET}"}),
        ("elsewhere", {"text": EMAIL, "metadata": {CARD: "x"}}),
        ("left_over", {"text": PHONE, "seed": 4917612345678}),
    ],
    ids=lambda v: v if isinstance(v, str) else "",
)
def test_a_doubt_keeps_the_call_and_is_counted(
    house: House, doubt: str, said: dict[str, Any]
) -> None:
    line = f'spillway_pseudonym_doubts_total{{reason="{doubt}"}}'
    before = house.metric(line)
    told = house.chat(said.pop("text"), max_tokens=4, **said)
    assert house.record(told)["sensitivity"] == "restricted"
    assert house.record(told)["attempts"][0]["zone"] == "onprem"
    assert house.metric(line) == before + 1
    assert not house.reached_a_cloud(EMAIL, CARD, PHONE, SECRET)


def test_a_call_that_needs_no_surrogates_is_none_of_this(house: House) -> None:
    told = house.chat("Summarise the water cycle.")
    assert told.headers["x-spillway-zone"] == "cloud"
    assert "x-spillway-pseudonymised" not in told.headers
    assert house.record(told)["classify_reason"] == "clear"


@pytest.mark.timeout(400)
def test_no_original_of_random_documents_reaches_the_cloud(house: House) -> None:
    """Each comes back as it went, or stays on the premises; most leave."""
    documents = [_document(Random(seed)) for seed in range(DOCUMENTS)]
    with ThreadPoolExecutor(4) as four:
        answers = list(four.map(lambda d: house.chat(d[0], max_tokens=4), documents))
    gone = 0
    for (text, _), told in zip(documents, answers, strict=True):
        assert told.status_code == 200, told.text
        if told.headers["x-spillway-zone"] == "cloud":
            assert told.headers["x-spillway-pseudonymised"]
            assert told.json()["choices"][0]["message"]["content"] == text
            gone += 1
    assert gone >= 0.9 * DOCUMENTS
    bodies = b"\n".join(house.repeating.bodies).lower()
    originals = {value for _, values in documents for value in values}
    found = [v for v in originals for form in _forms(v) if form.lower().encode() in bodies]
    assert found == []


_BOXES = ("maria.keller", "j_ortiz", "o.brien+bills", "anna-lena", "tkowalski77")
_HOSTS = ("posteo.de", "firma-gmbh.at", "mail.univ.fr", "outlook.com")
_FRAMES = (
    "Please write to {} today.", "Their number is {}, I think", "{} -- is that right?",
    "- {}\n- and more", '{{"value": "{}"}}', "<p>{}</p>", "Dear team,\n\n{} called again.",
)  # fmt: skip


def _document(random: Random) -> tuple[str, list[str]]:
    values = [random.choice(_MAKERS)(random) for _ in range(random.randint(1, 4))]
    said = [random.choice(_FRAMES).format(random.choice(values)) for _ in range(4)]
    said += [_FRAMES[0].format(value) for value in values]
    return "\n".join(random.sample(said, len(said))), values


def _email(random: Random) -> str:
    return f"{random.choice(_BOXES)}{random.randrange(1000)}@{random.choice(_HOSTS)}"


def _card(random: Random) -> str:
    body = f"4{random.randrange(10**14):014}"
    doubled = [int(c) * (2 - at % 2) for at, c in enumerate(body)]
    total = sum(d - 9 if d > 9 else d for d in doubled)
    digits = f"{body}{-total % 10}"
    return random.choice(("", " ", "-")).join(digits[at : at + 4] for at in range(0, 16, 4))


def _phone(random: Random) -> str:
    return f"+49 17{random.randrange(10)} {random.randrange(10**6, 10**7)}0"


def _address(random: Random) -> str:
    """A public one: others are nobody's."""
    rest = ".".join(str(random.randrange(11, 250)) for _ in range(3))
    return f"{random.choice((41, 81, 134, 178, 217))}.{rest}"


def _social(random: Random) -> str:
    return f"5{random.randrange(10, 99)}-{random.randrange(10, 99)}-{random.randrange(1000, 9999)}"


_MAKERS = (_email, _card, _phone, _address, _social)


def _forms(value: str) -> set[str]:
    return {value, "".join(filter(str.isalnum, value))}
