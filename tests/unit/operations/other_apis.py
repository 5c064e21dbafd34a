"""A provider for tests, written from the published schemas of OpenAI, vLLM and Cohere, with readers
of Python's own: nothing in it is the gateway's code."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.message import EmailMessage, Message
from email.parser import BytesParser
from email.policy import HTTP
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

SOUND = bytes(range(256)) * 400
PICTURE = b"\x89PNG\r\n\x1a\n" + bytes(range(256))
SUBTITLES = "1\n00:00:00,000 --> 00:00:01,000\nGood morning.\n"
SPOKEN = ["Good", " morning", "."]


@dataclass
class Received:
    """One call. `fields` are those of a document or of a form, whose files are apart."""

    path: str
    headers: dict[str, str]
    body: bytes = field(repr=False)
    fields: dict[str, Any]
    files: list[tuple[str, str, str, bytes]]  # name, filename, media type, content


def read_form(media_type: str, body: bytes) -> tuple[dict[str, Any], list[Any]]:
    """By Python's parser of mails."""
    head = f"content-type: {media_type}\r\n\r\n".encode("latin-1")
    message: Message = BytesParser(EmailMessage, policy=HTTP).parsebytes(head + body)
    fields: dict[str, Any] = {}
    files = []
    for part in message.iter_parts():  # type: ignore[attr-defined]
        name = part.get_param("name", header="content-disposition")
        content = part.get_payload(decode=True)
        if (filename := part.get_filename()) is not None:
            files.append((name, filename, part.get_content_type(), content))
        else:
            fields.setdefault(name, []).append(content.decode())
    return {name: v[0] if len(v) == 1 else v for name, v in fields.items()}, files


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Provider

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_GET(self) -> None:
        self.answer({"object": "list", "data": []})

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        media = self.headers["content-type"]
        fields, files = (
            read_form(media, body) if media.startswith("multipart/") else (json.loads(body), [])
        )
        self.server.received.append(Received(self.path, dict(self.headers), body, fields, files))
        if self.server.script is not None:
            self.server.script(self)
            return
        path = "/" + self.path.split("/", 2)[2]
        self._answer(path, fields)

    def _answer(self, path: str, fields: dict[str, Any]) -> None:
        match path:
            case "/v1/audio/transcriptions" | "/v1/audio/translations":
                self._heard(fields)
            case "/v1/audio/speech":
                self.chunked(
                    "audio/mpeg", [SOUND[at : at + 8192] for at in range(0, 102_400, 8192)]
                )
            case "/v1/images/generations" | "/v1/images/edits" | "/v1/images/variations":
                self.answer({"created": 1, "data": [{"b64_json": "AAAA"}]})
            case "/v1/moderations":
                scores = {"flagged": False, "categories": {}, "category_scores": {}}
                self.answer({"id": "modr-1", "model": fields["model"], "results": [scores]})
            case "/classify":
                self.answer({"object": "list", "data": [{"index": 0, "label": "fine"}]})
            case "/v1/score":
                self.answer({"object": "list", "data": [{"index": 0, "score": 0.5}]})
            case "/tokenize":
                self.answer({"count": 2, "max_model_len": 4096, "tokens": [1, 2]})
            case "/detokenize":
                self.answer({"prompt": "Good morning."})
            case "/v1/rerank":
                results = [{"index": 1, "relevance_score": 0.9}, {"index": 0, "relevance_score": 0}]
                self.answer({"id": "r-1", "results": results, "meta": {}})
            case _:
                self.answer({"error": {"message": f"no {path}"}}, 404)

    def _heard(self, fields: dict[str, Any]) -> None:
        text = "".join(SPOKEN)
        if fields.get("stream") == "true":
            events = [{"type": "transcript.text.delta", "delta": word} for word in SPOKEN]
            events.append({"type": "transcript.text.done", "text": text})
            self.chunked(
                "text/event-stream", [b"data: " + json.dumps(e).encode() + b"\n\n" for e in events]
            )
        elif fields.get("response_format") == "srt":
            self._whole(SUBTITLES.encode(), "text/plain; charset=utf-8")
        else:
            usage = {"type": "tokens", "input_tokens": 9, "output_tokens": 3, "total_tokens": 12}
            self.answer({"text": text, "usage": usage})

    def chunked(self, media_type: str, chunks: list[bytes], whole: bool = True) -> None:
        self.send_response(200)
        self.send_header("content-type", media_type)
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        for chunk in chunks:
            self.wfile.write(b"%x\r\n%b\r\n" % (len(chunk), chunk))
        if whole:
            self.wfile.write(b"0\r\n\r\n")
        else:
            self.close_connection = True

    def answer(self, document: Any, status: int = 200) -> None:
        self._whole(json.dumps(document).encode(), "application/json", status)

    def _whole(self, body: bytes, media_type: str, status: int = 200) -> None:
        self.send_response(status)
        self.send_header("content-type", media_type)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


class Provider(ThreadingHTTPServer):
    """Paths begin with the name of whoever is called: `/cloud/v1/...`."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.received: list[Received] = []
        self.script: Any = None  # answers in the place of the usual answers

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that has left is none."""

    def url(self, name: str) -> str:
        return f"http://127.0.0.1:{self.server_port}/{name}/v1"

    def taken(self) -> list[Received]:
        """What was received since this was last called, but for canaries."""
        received, self.received = self.received, []
        return [call for call in received if "Hi" not in call.fields.values()]


@contextmanager
def provider() -> Iterator[Provider]:
    with Provider() as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join()
