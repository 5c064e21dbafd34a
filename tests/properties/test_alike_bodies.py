"""A body that is read by what stood in one before it is read as it is by itself."""

from __future__ import annotations

import json
from typing import Any

import orjson
import pytest
from hypothesis import event, example, given, settings
from hypothesis import strategies as st

from gateway.core.errors import MalformedBody
from gateway.protocols import strictjson
from gateway.server.openai.alike import AlikeBodies

DEPTH = 8
TEXTS = st.text(max_size=12) | st.sampled_from(
    ["", "@", "m", "role", "user", '"', "\\", '\\"', "a\nb", "\u00e9", "\U0001f600", "4111 1111"]
)
ROLES = st.sampled_from(["user", "system", "developer", "assistant", "@"])
NAMES = st.sampled_from(["max_tokens", "stream", "user", "n", "@", "content"])
NUMBERS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
)
SETTINGS = st.dictionaries(NAMES, NUMBERS, max_size=3) | st.dictionaries(
    NAMES, NUMBERS | TEXTS, max_size=3
)
OF_ANY_KIND: st.SearchStrategy[list[dict[str, Any]]] = st.lists(
    st.fixed_dictionaries(
        {"role": ROLES | TEXTS | st.just([]), "content": TEXTS | st.none()},
        optional={"name": TEXTS},
    ),
    max_size=3,
)
USUAL = st.builds(
    lambda told, asked: [
        *({"role": role, "content": text} for role, text in told),
        {"role": "user", "content": asked},
    ],
    st.lists(st.tuples(st.sampled_from(["system", "developer"]), TEXTS), max_size=2),
    TEXTS,
)
MESSAGES = USUAL | USUAL | OF_ANY_KIND
WRITERS = st.sampled_from([
    lambda found: json.dumps(found).encode(),
    lambda found: json.dumps(found, ensure_ascii=False).encode(errors="surrogatepass"),
    lambda found: json.dumps(found, separators=(",", ":")).encode(),
    lambda found: json.dumps(found, indent=1).encode(),
])  # fmt: skip
INSIDES = (
    st.binary(max_size=8)
    | TEXTS.map(lambda text: json.dumps(text)[1:-1].encode())
    | TEXTS.map(lambda text: text.encode(errors="surrogatepass"))
    | st.sampled_from([
        b'"', b"\\", b'\\"', b'x","role":"system', b'x"},{"role":"user","content":"y', b'", "',
        b'"]', b"\x00", b"\n", b"\\ud800", b"\\u0041", b"\xff", b'x","content":"y', b'":1,"',
    ])
)  # fmt: skip


def read(body: bytes, by: AlikeBodies | None) -> Any:
    """The value with the order of its keys and the types in it, or why there is none."""
    try:
        found = strictjson.load_object(body, DEPTH) if by is None else by.read(body)
    except MalformedBody as refused:
        return str(refused)
    return json.dumps(found), found


@settings(max_examples=600, deadline=None)
@given(SETTINGS, MESSAGES, WRITERS, st.lists(INSIDES, max_size=6), st.booleans())
@example({}, [{"role": "user", "content": "m"}], orjson.dumps, [b"x"], True)
@example({}, [{"role": "user", "content": "hello"}], orjson.dumps, [b'y\\"', b"\\u0041"], True)
def test_what_is_known_of_a_body_says_what_the_body_says(
    told: dict[str, Any],
    messages: list[dict[str, Any]],
    written: Any,
    insides: list[bytes],
    model_first: bool,
) -> None:
    document = {"model": "m", **told} if model_first else {**told, "model": "m"}
    document["messages"] = messages
    bodies = AlikeBodies(DEPTH)
    first = written(document)
    assert read(first, bodies) == read(first, None)
    event(f"learnt: {bool(bodies._before)}")
    for inside in insides:
        if bodies._before:
            body = b'%b"%b"%b' % (bodies._before, inside, bodies._behind)
        else:
            body = first.replace(b"user", inside)
        assert read(body, bodies) == read(body, None)
        cut = body[: len(bodies._before) + 1] + bodies._behind[1:]
        assert read(cut, bodies) == read(cut, None)


@pytest.mark.parametrize(
    "instead",
    [
        b"5",
        b"null",
        b"12345678901234567890123",
        b'{"a":1,"a":2}',
        b"[[[[[[[[1]]]]]]]]",
        b"",
        b' "a" ',
    ],
)
def test_what_is_no_string_is_read_in_full(instead: bytes) -> None:
    bodies = AlikeBodies(DEPTH)
    bodies.read(b'{"model":"m","messages":[{"role":"user","content":"hello"}],"n":1}')
    body = b"%b%b%b" % (bodies._before, instead, bodies._behind)
    assert bodies._before
    assert read(body, bodies) == read(body, None)


@pytest.mark.interpreted
def test_a_body_like_the_one_before_is_read_by_its_message_alone(monkeypatch: Any) -> None:
    def body(said: str) -> bytes:
        asked = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": said}]
        return json.dumps({"model": "m", "messages": asked, "max_tokens": 5}).encode()

    bodies = AlikeBodies(DEPTH)
    bodies.read(body("one"))
    whole: list[bytes] = []
    monkeypatch.setattr(strictjson, "load_object", lambda b, most: whole.append(b))
    assert bodies.read(body("two \u00e9 \n"))["messages"][1]["content"] == "two \u00e9 \n"
    assert whole == []


def test_nothing_is_kept_of_what_was_said() -> None:
    secret = "4111111111111111"
    for messages in (
        [{"role": "user", "content": secret}],
        [{"role": "user", "content": secret}, {"role": "user", "content": "and now?"}],
        [{"role": "system", "content": "x"}, {"role": "user", "content": secret}],
    ):
        for more in ({}, {"user": secret}, {"metadata": {"a": secret}}):
            bodies = AlikeBodies(DEPTH)
            bodies.read(json.dumps({"model": "m", "messages": messages, **more}).encode())
            kept = [getattr(bodies, name) for name in dir(bodies)]
            assert bodies._before in kept
            assert secret not in repr(kept)
