"""The conversations that a call carries, in whichever field, and what their turns are known by.

A provider may read another field than the protocol names (`input` beside `messages`, `history`, a
list in `extra_body`, a conversation as JSON text), so all of them count: each list of turns that
stands in the call is a conversation, and so is a text where one may stand alone.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from typing import Any, Final

from gateway.core.types import Payload, Tensor, TensorCall

_OPENING_ROLES = frozenset({"system", "developer"})
_SPOKEN = frozenset(
    {"messages", "input", "inputs", "prompt", "history", "contents", "chat_history"}
)
"""Fields whose text, or list of anything, is what was said."""
_NO_TURNS = frozenset(
    {"tools", "functions", "response_format", "logit_bias", "stop", "stop_sequences", "modalities"}
    | {"include", "guided_choice", "bad_words"}
)
_SPEAKER = ("role", "from", "author", "speaker", "sender")
_TEXT = ("content", "output", "text", "parts", "value", "message", "arguments")
_MOST_TALKS = 64  # of one call that are known by a mark each
_MOST_CONTAINERS = 4096  # of one call that are looked into for turns
_LONGEST_JSON = 262_144  # characters of a text that is read as JSON
_DEPTH = 8  # of containers around a conversation
_LENGTH_BYTES = 4


class Conversations:
    """`all` holds the turns of each conversation; `whole` is False where a call has more of them
    than are looked for."""

    def __init__(self) -> None:
        self.all: list[list[Any]] = []
        self.whole = True
        self._room = _MOST_CONTAINERS

    def add(self, turns: list[Any]) -> None:
        if len(self.all) >= _MOST_TALKS:
            self.whole = False
        elif turns:
            self.all.append(turns)

    def field(self, name: str, value: Any, depth: int) -> None:
        if isinstance(value, str):
            if name in _SPOKEN and value:
                self.add([value])
            self.text(value, depth)
        elif isinstance(value, dict | list) and name not in _NO_TURNS:
            self.container(value, depth, name in _SPOKEN)

    def container(self, value: dict[str, Any] | list[Any], depth: int, spoken: bool) -> None:
        self._room -= 1
        if self._room < 0 or depth > _DEPTH:
            self.whole = False
        elif isinstance(value, dict):
            if _is_turn(value):
                self.add([value])
            for name, item in value.items():
                self.field(name, item, depth + 1)
        elif spoken or any(map(_is_turn, value)):
            self.add(value)
        else:
            for item in value:
                self.field("", item, depth + 1)

    def text(self, text: str, depth: int) -> None:
        """A conversation that is written as JSON text."""
        begin = text[:64].lstrip()[:1]
        if not begin or begin not in "[{" or len(text) > _LONGEST_JSON:
            return
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            return
        if isinstance(value, dict | list):
            self.container(value, depth + 1, False)

    def tensor(self, tensor: Tensor) -> None:
        """The elements of a text tensor: together the turns of one conversation, and each may be
        one by itself."""
        elements = list(_elements(tensor.data))
        self.add(list[Any](elements))
        for text in elements:
            self.text(text, 0)


def conversations(payload: Payload) -> Conversations:
    """All conversations of a call."""
    talks = Conversations()
    if isinstance(payload, TensorCall):
        for tensor in payload.inputs:
            if tensor.datatype == "BYTES":
                talks.tensor(tensor)
        for name, parameter in payload.parameters.items():
            talks.field(name, parameter, 0)
        return talks
    # guard: C18.conversation-fields payload.document.items() -> [("messages",
    #   payload.document.get("messages", payload.document.get("input")))]
    for name, value in payload.document.items():
        talks.field(name, value, 0)
    return talks


def written(turn: Any) -> bytes:
    """Who says what, and nothing else: clients write the rest of a turn anew, or leave it out. Each
    with its length, so that no two are written alike."""
    who: Any = "user"
    content: Any = turn
    if isinstance(turn, dict):
        who, content = _first(turn, _SPEAKER), _first(turn, _TEXT)
        if who is None:
            who = turn.get("type")
    speaker = _NOBODY
    if isinstance(who, str):
        speaker = _SPEAKERS.get(who) or _with_length(who)
    text = (content if isinstance(content, str) else _content_text(content)).strip()
    return speaker + _with_length(text)


def goes_on(talks: Conversations) -> bool:
    """Whether a call may have had one before it."""
    return not talks.whole or any(map(_has_answers, talks.all))


def _has_answers(turns: list[Any]) -> bool:
    answers = [t for t in turns if not (isinstance(t, dict) and t.get("role") in _OPENING_ROLES)]
    return len(answers) > 1


def _is_turn(item: Any) -> bool:
    """A message, a pair of question and answer, or prose."""
    if isinstance(item, dict):
        return "content" in item or any(name in item for name in _SPEAKER)
    if isinstance(item, list):
        return bool(item) and all(isinstance(each, str) for each in item)
    return isinstance(item, str) and " " in item.strip()


def _elements(data: bytes) -> Iterator[str]:
    """The texts of a BYTES tensor, as far as their lengths add up."""
    at = 0
    while at + _LENGTH_BYTES <= len(data):
        (length,) = struct.unpack_from("<I", data, at)
        at += _LENGTH_BYTES + length
        yield data[at - length : at].decode("utf-8", "replace")


def _first(turn: dict[str, Any], names: tuple[str, ...]) -> Any:
    for name in names:
        if name in turn:
            return turn[name]
    return None


def _with_length(text: str) -> bytes:
    encoded = text.encode("utf-8", "surrogatepass")
    return len(encoded).to_bytes(8, "big") + encoded


_NOBODY: Final = _with_length("")
_SPEAKERS: Final = {
    **{who: _with_length(who) for who in ("assistant", "system", "tool", "user")},
    "developer": _with_length("system"),
}
"""Most of them. Clients rename the system to the developer, as models want it."""


def _content_text(content: Any) -> str:
    """The text of a content, the same whether it comes whole or in parts."""
    if content is None or isinstance(content, str):
        return content or ""
    if isinstance(content, list):
        return "".join(_part(part) for part in content)
    return json.dumps(content, sort_keys=True)


def _part(part: Any) -> str:
    text = part.get("text") if isinstance(part, dict) else part
    return text if isinstance(text, str) else json.dumps(part, sort_keys=True)
