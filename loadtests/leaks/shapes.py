"""Forms of a text, records of a person, and the fields of a call where either may stand."""

from __future__ import annotations

import base64
import gzip
import html
import json
import random
import urllib.parse
from collections.abc import Callable, Mapping
from typing import Any

from loadtests.leaks.values import FIRST, LAST, PROSE, WORDED, Text, pesel

Form = Callable[[str], str]


def _every(character: str) -> Form:
    return lambda text: character.join(text)


def _between_digits(mark: str) -> Form:
    """Puts the mark behind each digit that another follows."""

    def form(text: str) -> str:
        return "".join(
            c + mark if c.isdigit() and text[at + 1 : at + 2].isdigit() else c
            for at, c in enumerate(text)
        )

    return form


def _wide(text: str) -> str:
    return "".join(chr(ord(c) + 0xFEE0) if "!" <= c <= "~" else c for c in text)


def _escaped(text: str) -> str:
    units = text.encode("utf-16-be")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))


def _base64(encoding: str) -> Form:
    return lambda text: base64.b64encode(text.encode(encoding)).decode()


WHOLE: Mapping[str, Form] = {
    "plain": str,
    "full width": _wide,
    "percent": lambda text: urllib.parse.quote(text, safe=""),
    "percent twice": lambda t: urllib.parse.quote(urllib.parse.quote(t, safe=""), safe=""),
    "HTML entities": lambda text: "".join(f"&#{ord(c)};" for c in text),
    "HTML hex entities": lambda text: "".join(f"&#x{ord(c):x};" for c in text),
    "HTML tags": lambda text: " ".join(f"<b>{html.escape(w)}</b>" for w in text.split(" ")),
    "\\u escapes": _escaped,
    "zero width": _every("\u200b"),
    "soft hyphens": _every("\u00ad"),
    "base64": _base64("utf-8"),
    "base64 UTF-16": _base64("utf-16"),
    "base64 UTF-16 big-endian": _base64("utf-16-be"),
    "base64url": lambda text: base64.urlsafe_b64encode(text.encode()).decode().rstrip("="),
    "base64 of percent": lambda t: _base64("utf-8")(urllib.parse.quote(t, safe="")),
    "base64 gzip": lambda text: base64.b64encode(gzip.compress(text.encode(), mtime=0)).decode(),
    "base32": lambda text: base64.b32encode(text.encode()).decode(),
    "hex": lambda text: text.encode().hex(),
    "character codes": lambda text: " ".join(str(ord(c)) for c in text),
    "JSON in JSON": lambda text: json.dumps({"note": json.dumps({"text": text})}),
}
DIGITS: Mapping[str, Form] = {
    "spaced digits": _between_digits(" "),
    "dotted digits": _between_digits("."),
    "struck digits": _between_digits("\u0336"),
    "broken lines": lambda text: text.replace("-", "-\n").replace(" ", "\n"),
    "Arabic digits": lambda t: t.translate({ord("0") + n: 0x0660 + n for n in range(10)}),
    "digit list": lambda text: json.dumps([int(c) for c in text if c.isdigit()]),
    "group list": lambda text: json.dumps(
        ["".join(c for c in text if c.isdigit())[at : at + 4] for at in range(0, 20, 4)]
    ),
}
_LISTS = frozenset({"digit list", "group list"})
_LISTED = frozenset({"card"})
"""Values whose digits alone say what they are."""


def formed(dice: random.Random, text: Text) -> tuple[str, str]:
    """The form's name, and the text in it. Forms of digits change the value alone."""
    if not text.value or text.kind in PROSE | WORDED or dice.random() < 0.6:
        name = dice.choice(tuple(WHOLE))
        return name, WHOLE[name](text.words)
    names = [n for n in DIGITS if n not in _LISTS or text.kind in _LISTED]
    if text.kind in ("e-mail", "secret"):
        return "plain", text.words
    name = dice.choice(names)
    return name, text.words.replace(text.value, DIGITS[name](text.value))


def record_of_a_person(dice: random.Random) -> tuple[str, str]:
    """The record's format, and a record whose given and family name stand in two fields."""
    given, family = dice.choice(FIRST), dice.choice(LAST)
    born = f"19{dice.randint(40, 99)}-0{dice.randint(1, 9)}-{dice.randint(10, 28)}"
    formats: Mapping[str, str] = {
        "FHIR": json.dumps(
            {"resourceType": "Patient", "name": [{"family": family, "given": [given]}],
             "birthDate": born},
            ensure_ascii=False,
        ),
        "camelCase JSON": json.dumps({"firstName": given, "lastName": family}, ensure_ascii=False),
        "snake_case JSON": json.dumps(
            {"id": 7, "last_name": family, "city": "Leeds", "first_name": given}
        ),
        "form": urllib.parse.urlencode({"vorname": given, "nachname": family, "plan": "basic"}),
        "CSV": f"id,first_name,last_name,plan\n7,{given},{family},basic\n",
        "SQL": f"INSERT INTO patients (family_name, given_name) VALUES ('{family}', '{given}');",
        "YAML": f"patient:\n  surname: {family}\n  forename: {given}\n  ward: 4\n",
        "HL7": f"PID|1||{pesel(dice)[:6]}^^^ADT||{family.upper()}^{given.upper()}||{born}|F",
        "XML": f"<patient><nom>{family}</nom><prenom>{given}</prenom></patient>",
        "HTML": f'<input name="nombre" value="{given}"><input name="apellidos" value="{family}">',
        "lines": f"First name: {given}\nLast name: {family}\nReason for the visit: check-up",
        "form with diagnosis": f"Name: {family}\nDate of birth: {born}\nDiagnosis: type 2 diabetes",
    }  # fmt: skip
    name = dice.choice(tuple(formats))
    return name, formats[name]


Field = Callable[[str, str], dict[str, Any]]
"""(text, reference) -> the body of an OpenAI call, without its model."""


def _message(role: str) -> Field:
    def field(text: str, reference: str) -> dict[str, Any]:
        return _chat(reference, {"role": role, "content": text}, {"role": "user", "content": "go"})

    return field


def _chat(reference: str, *messages: Any, **fields: Any) -> dict[str, Any]:
    first = {"role": "user", "content": f"(note {reference}) go on"}
    return {"messages": [first, *messages], **fields}


def _arguments(text: str, reference: str) -> dict[str, Any]:
    function = {"name": "lookup", "arguments": json.dumps({"query": text})}
    call = {"id": "call_1", "type": "function", "function": function}
    return _chat(
        reference,
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "call_1", "content": "nothing"},
    )


def _used(given: dict[str, Any], result: str) -> list[dict[str, Any]]:
    """A call of a tool and its result, as Anthropic's messages have them."""
    call = {"type": "tool_use", "id": "call_1", "name": "lookup", "input": given}
    answer = {"type": "tool_result", "tool_use_id": "call_1", "content": result}
    return [{"role": "assistant", "content": [call]}, {"role": "user", "content": [answer]}]


FIELDS: Mapping[str, tuple[str, Field]] = {
    "chat user": ("chat/completions", _message("user")),
    "chat system": ("chat/completions", _message("system")),
    "chat assistant": ("chat/completions", _message("assistant")),
    "chat parts": (
        "chat/completions",
        lambda t, r: _chat(r, {"role": "user", "content": [{"type": "text", "text": t}]}),
    ),
    "chat tool result": (
        "chat/completions",
        lambda t, r: _chat(r, {"role": "tool", "tool_call_id": "call_1", "content": t}),
    ),
    "chat tool arguments": ("chat/completions", _arguments),
    "chat metadata": ("chat/completions", lambda t, r: _chat(r, metadata={"note": t})),
    "chat unknown field": ("chat/completions", lambda t, r: _chat(r, context={"rows": [t]})),
    "chat prediction": (
        "chat/completions",
        lambda t, r: _chat(r, prediction={"type": "content", "content": t}),
    ),
    "messages user": ("messages", lambda t, r: _chat(r, {"role": "user", "content": t})),
    "messages system": ("messages", lambda t, r: _chat(r, system=t)),
    "messages tool result": ("messages", lambda t, r: _chat(r, *_used({}, t))),
    "messages tool input": ("messages", lambda t, r: _chat(r, *_used({"query": t}, "nothing"))),
    "completions prompt": ("completions", lambda t, r: {"prompt": f"{t}\n(note {r})"}),
    "completions prompts": ("completions", lambda t, r: {"prompt": [f"(note {r})", t]}),
    "completions user": ("completions", lambda t, r: {"prompt": f"(note {r})", "user": t}),
    "embeddings input": ("embeddings", lambda t, r: {"input": [t, f"note {r}"]}),
    "embeddings one": ("embeddings", lambda t, r: {"input": f"note {r}\n{t}"}),
    "responses input": ("responses", lambda t, r: {"input": f"{t}\n(note {r})"}),
    "responses items": (
        "responses",
        lambda t, r: {"input": [{"role": "user", "content": [{"type": "input_text", "text": t}]}],
                      "instructions": f"(note {r})"},
    ),
    "responses output": (
        "responses",
        lambda t, r: {"input": [
            {"role": "user", "content": f"(note {r})"},
            {"type": "function_call_output", "call_id": "1", "output": t},
        ]},
    ),
    "responses instructions": (
        "responses", lambda t, r: {"input": f"(note {r})", "instructions": t},
    ),
}  # fmt: skip
TENSORS = (
    "REST text", "REST binary", "REST id", "REST parameter", "gRPC raw", "gRPC contents",
    "generate", "predict",
)  # fmt: skip
"""Where a text may stand in a call of tensors."""
