"""Events of blocks: a block is open from its first piece to the first piece of another.

The reason why an answer ends and what it took go out together behind the last chunk: chats tell the
latter last.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection
from typing import Any

from orjson import JSONDecodeError, loads

from gateway.core.errors import UpstreamFailed
from gateway.core.types import JsonDocument
from gateway.server.dialects.answers import END, ending, reasoning
from gateway.server.dialects.stream import StreamWriter

TEXT, THINKING, REDACTED, TOOL = "text", "thinking", "redacted_thinking", "tool_use"


class OpenCall:
    """A call of a tool, as far as it has come."""

    __slots__ = ("arguments", "id", "name", "position", "written")

    def __init__(self, position: int, own: str, name: str) -> None:
        self.position, self.id, self.name = position, own, name
        self.arguments = ""
        self.written = 0  # characters of them

    def is_whole(self) -> bool:
        if not self.arguments.endswith("}"):
            return False
        try:
            loads(self.arguments)
        except JSONDecodeError:
            return False
        return True


class ToolCalls:
    """The calls of one answer, written one after the other, as chats may write several side by
    side."""

    def __init__(self) -> None:
        self._calls: dict[Any, OpenCall] = {}
        self._ended = 0  # how many of them, in their order

    def __len__(self) -> int:
        return len(self._calls)

    def add(self, piece: JsonDocument) -> None:
        """Raises UpstreamFailed for a call without its name, and for one that has ended."""
        at, function = piece.get("index", 0), piece.get("function") or {}
        call = self._calls.get(at)
        if call is None:
            if not isinstance(name := function.get("name"), str) or not name:
                raise UpstreamFailed("the endpoint's answer has a call of a tool without its name")
            call = self._calls[at] = OpenCall(
                len(self._calls), piece.get("id") or f"call_{at}", name
            )
        if arguments := function.get("arguments"):
            if call.position < self._ended:
                raise UpstreamFailed("the endpoint's answer goes on with a call that has ended")
            call.arguments += arguments

    def end_open(self) -> None:
        """Something else begins: the call that is open has come whole."""
        self._ended += 1

    def pending(self, last: bool) -> list[OpenCall]:
        """Those of which something may go: the first that has not ended, and the next once that is
        whole. `last`: no more comes of any."""
        calls: list[OpenCall] = []
        for call in list(self._calls.values())[self._ended :]:
            calls.append(call)
            # guard: S13.one-block -> if False:
            if not last and (call.position + 1 == len(self._calls) or not call.is_whole()):
                break
            self._ended = call.position + 1
        return calls


class BlockWriter(StreamWriter):
    """Writes one stream of blocks. Who inherits says how each event looks."""

    def __init__(self, stops: Collection[str]) -> None:
        """`stops`: the sequences that may stop the answer."""
        self._stops = stops
        self._begun = False
        self.index = -1  # of the last block
        self.refusal = ""
        self.end = END, ""  # why the answer ended, and the sequence that stopped it
        self.usage: Any = None
        self._kind = ""  # of the block that is open
        self._block: Any = None  # what of the endpoint's is open: the number of a thought or call
        self._calls = ToolCalls()
        self._signed = False  # thoughts come in blocks, and need no second form

    # How each event looks

    @abstractmethod
    def start(self, document: JsonDocument) -> bytes:
        """Of an answer; `document`: its first chunk."""

    @abstractmethod
    def opening(self, kind: str, call: OpenCall | None, data: str) -> bytes:
        """Of a block; `data`: of a thought that nobody may read."""

    @abstractmethod
    def piece(self, text: str) -> bytes:
        """Of the block that is open."""

    @abstractmethod
    def signature(self, signature: str) -> bytes: ...

    @abstractmethod
    def closing(self, kind: str) -> bytes: ...

    @abstractmethod
    def ending(self) -> bytes: ...

    # What comes

    def _chunk(self, document: Any) -> bytes:
        written = b"" if self._begun else self._start(document)
        if counts := document.get("usage"):
            self.usage = counts
        if choices := document.get("choices"):
            choice = choices[0]
            written += self._pieces(choice.get("delta") or {})
            if choice.get("finish_reason") is not None:
                self.end = ending(choice, self._stops, len(self._calls) > 0)
        return written

    def last(self) -> bytes:
        started = b"" if self._begun else self._start({})
        return started + self._calls_written(last=True) + self._close() + self.ending()

    def _start(self, document: JsonDocument) -> bytes:
        self._begun = True
        return self.start(document)

    def _pieces(self, delta: JsonDocument) -> bytes:
        text = delta.get("content")
        if len(delta) == 1 and text:
            return self._content(text)
        written = b""
        if thoughts := delta.get("thinking_blocks"):
            self._signed = True
            for thought in thoughts:
                written += self._thought(thought)
        elif not self._signed and (thought := reasoning(delta)):
            written += self._open(THINKING, None) + self.piece(thought)
        if text:
            written += self._content(text)
        if refusal := delta.get("refusal"):
            self.refusal += refusal
        for call in delta.get("tool_calls") or ():
            self._calls.add(call)
            written += self._calls_written()
        return written

    def _content(self, text: str) -> bytes:
        begun = b""
        if self._kind != TEXT:
            if self._kind == TOOL:
                self._calls.end_open()
            begun = self._open(TEXT, None)
        return begun + self.piece(text)

    def _thought(self, thought: JsonDocument) -> bytes:
        at = thought.get("index", 0)
        if thought.get("type") == REDACTED:
            return self._open(REDACTED, at, data=thought["data"])
        written = self._open(THINKING, at)
        if text := thought.get("thinking"):
            written += self.piece(text)
        if signature := thought.get("signature"):
            written += self.signature(signature)
        return written

    def _calls_written(self, last: bool = False) -> bytes:
        written = b""
        for call in self._calls.pending(last):
            written += self._open(TOOL, call.position, call)
            if arguments := call.arguments[call.written :]:
                call.written = len(call.arguments)
                written += self.piece(arguments)
        return written

    def _open(self, kind: str, at: Any, call: OpenCall | None = None, data: str = "") -> bytes:
        """The beginning of a block, unless this one is open."""
        if self._kind == kind and self._block == at:
            return b""
        written = self._close()
        self.index, self._kind, self._block = self.index + 1, kind, at
        return written + self.opening(kind, call, data)

    def _close(self) -> bytes:
        kind, self._kind = self._kind, ""
        return self.closing(kind) if kind else b""
