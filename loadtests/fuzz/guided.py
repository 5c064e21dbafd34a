"""Coverage-guided fuzzing of our HTTP/2 and HPACK: `python -m loadtests.fuzz.guided server`.

    pip install atheris                      # Linux, CPython 3.11 to 3.13; not in our lock files
    python -m loadtests.fuzz.guided server --seconds 3600 --corpus var/fuzz/server
    python -m loadtests.fuzz.guided server --replay crash-...

Targets, each with what has to hold for any octets at all:

* `server`, `client`: one end of a connection is fed a peer's octets, whole and in pieces. No
  exception leaves it, what it writes is whole frames and the same octets either way, and once the
  connection is lost no call runs, no byte is held and nothing failed in the event loop.
* `hpack`: header blocks. What the decoder takes, the `hpack` package reads as the same fields.

The seeds are the cases of `tests/unit/http2/test_conformance.py`.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

_MOST_BYTES = 1 << 14
_TURNS = 8  # of the event loop, in which what was begun comes to its end
_STREAMS = 8
_MESSAGE_BYTES = 4096

Target = Callable[[bytes], None]


class Transport:
    """Keeps what is written."""

    def __init__(self) -> None:
        self.written = bytearray()
        self.closing = False

    def write(self, data: bytes) -> None:
        self.written += data

    def get_write_buffer_size(self) -> int:
        return 0

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return default

    def is_closing(self) -> bool:
        return self.closing

    def close(self) -> None:
        self.closing = True

    abort = close

    def write_eof(self) -> None: ...
    def pause_reading(self) -> None: ...
    def resume_reading(self) -> None: ...


class Loop:
    """An event loop that a target steps by hand."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.failures: list[dict[str, Any]] = []
        self.loop.set_exception_handler(lambda _, context: self.failures.append(context))

    def __enter__(self) -> Loop:
        asyncio.events._set_running_loop(self.loop)
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.events._set_running_loop(None)

    def turn(self) -> None:
        for _ in range(_TURNS):
            self.loop.run_until_complete(asyncio.sleep(0))

    def check(self) -> None:
        failures, self.failures = self.failures, []
        assert not failures, failures


def pieces(data: bytes) -> Iterator[bytes]:
    """Cut where the octets themselves say, so that the search can move the cuts."""
    at = 0
    while at < len(data):
        size = 1 + data[at] % 23
        yield data[at : at + size]
        at += size


def check_frames(written: bytes) -> None:
    """What an end writes is whole frames of the kinds that it may send."""
    at = 0
    while at < len(written):
        size, kind = int.from_bytes(written[at : at + 3]), written[at + 3]
        assert kind in (0, 1, 3, 4, 6, 7, 8, 9), kind
        at += 9 + size
    assert at == len(written), "a frame is cut short"


def server_target() -> Target:
    from gateway.core.errors import GatewayError
    from gateway.core.held_bytes import HeldBytes
    from gateway.protocols.http2 import frames
    from gateway.protocols.http2.exchange import OK, Http2Exchange, Serving, status_fields
    from gateway.protocols.http2.request import Http2RequestHead
    from gateway.protocols.http2.sender import Fields
    from gateway.protocols.http2.server import Http2Server

    async def echo(exchange: Http2Exchange) -> None:
        if not exchange.serving.at_once:
            exchange.answer(exchange.message, (OK, b""))
            return
        try:
            while (message := await exchange.next()) is not None:
                await exchange.put(message)
        except Exception:  # noqa: BLE001 - a message that is none
            exchange.end(*status_fields("INTERNAL", "no message"))
            return
        exchange.end(OK, b"")

    class Host:
        stopping = False
        max_streams = _STREAMS
        max_message_bytes = _MESSAGE_BYTES

        def __init__(self) -> None:
            self.held = HeldBytes(8 * _MESSAGE_BYTES)

        def opened(self, connection: Any) -> None: ...
        def closed(self, connection: Any) -> None: ...

        def serving(self, exchange: Http2Exchange) -> Serving:
            head = exchange.head
            return Serving(
                echo,
                at_once=head.path.endswith("StreamInfer"),
                known=("x-known", "1") in head.metadata,
                refuses=("x-refuse", "1") in head.metadata,
                max_bytes=_MESSAGE_BYTES,
            )

        def arrives_s(self, head: Http2RequestHead) -> float:
            return 60.0

        def refusal(self, exchange: Http2Exchange, error: GatewayError) -> Fields:
            return status_fields("RESOURCE_EXHAUSTED", "no room")

    loop = Loop()

    def feed(parts: Iterator[bytes]) -> bytes:
        transport, host = Transport(), Host()
        with loop:
            end = Http2Server(host)
            end.connection_made(cast(asyncio.Transport, transport))
            end.data_received(frames.PREFACE + frames.settings({}))
            for part in parts:
                end.data_received(part)
            first = bytes(transport.written)
        loop.turn()
        with loop:
            end.connection_lost(None)
        loop.turn()
        check_frames(bytes(transport.written))
        assert not end.calls.running, "a call runs on behind its connection"
        assert host.held.bytes == 0, f"{host.held.bytes} bytes are held for nobody"
        loop.check()
        return first

    def run(data: bytes) -> None:
        data = data[:_MOST_BYTES]
        whole, parts = feed(iter((data,))), feed(pieces(data))
        assert whole == parts, "pieces are answered in another way"

    return run


def client_target() -> Target:
    from gateway.protocols.http2 import frames
    from gateway.protocols.http2.client import Http2Client

    loop = Loop()
    begins = ((b":method", b"POST"), (b":scheme", b"http"), (b":path", b"/a/B"))

    def feed(parts: Iterator[bytes]) -> bytes:
        transport = Transport()
        with loop:
            end = Http2Client(_MESSAGE_BYTES)
            end.connection_made(cast(asyncio.Transport, transport))
            end.data_received(frames.settings({}))
            calls = [end.calls.call(begins, b"", b"x" * size) for size in (0, 1, 100_000)]
            streamed = end.calls.stream(begins, b"", b"asked")
            for part in parts:
                end.data_received(part)
            first = bytes(transport.written)
        loop.turn()
        with loop:
            end.connection_lost(None)
        loop.turn()
        check_frames(bytes(transport.written)[len(frames.PREFACE) :])
        assert all(call.answer.done() for call in (*calls, streamed)), "a call waits for nobody"
        loop.check()
        return first

    def run(data: bytes) -> None:
        data = data[:_MOST_BYTES]
        assert feed(iter((data,))) == feed(pieces(data)), "pieces are read in another way"

    return run


def hpack_target() -> Target:
    import hpack

    from gateway.protocols.http2 import Http2Error
    from gateway.protocols.http2.hpack import Decoder

    def run(data: bytes) -> None:
        ours: Decoder[Any] = Decoder(lambda fields: fields, 1 << 20)
        theirs = hpack.Decoder(max_header_list_size=1 << 24)
        for block in data.split(b"\xff\xfe\xfd"):
            try:
                found = ours.decode(block)
            except Http2Error:
                return
            read = [(bytes(n), bytes(v)) for n, v in theirs.decode(block, raw=True)]
            assert found is None or [tuple(each) for each in found] == read, (found, read)

    return run


TARGETS = {"server": server_target, "client": client_target, "hpack": hpack_target}


def seeds(target: str) -> Iterator[bytes]:
    """What the conformance cases send; of `client` the server's half is left to the search."""
    from tests.unit.http2.peers import Peer
    from tests.unit.http2.test_conformance import CASES

    for case in CASES:
        peer = Peer(cast(Any, None), cast(Any, None))
        sent = case.frames(peer) + (b"" if case.later is None else case.later(peer))
        if len(sent) <= _MOST_BYTES:
            yield sent[9:] if target == "hpack" else sent


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m loadtests.fuzz.guided",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("target", choices=TARGETS)
    parser.add_argument("--seconds", type=int, default=60, help="how long (60)")
    parser.add_argument(
        "--corpus", type=Path, help="folder that keeps the inputs (a temporary one)"
    )
    parser.add_argument("--replay", type=Path, help="run one input, as a failure left it")
    given = parser.parse_args()
    if given.replay is not None:
        TARGETS[given.target]()(given.replay.read_bytes())
        return 0
    try:
        import atheris  # type: ignore[import-untyped, import-not-found, unused-ignore]
    except ImportError:
        print("atheris is not installed: pip install atheris", file=sys.stderr)
        return 2
    with atheris.instrument_imports(include=["gateway.protocols", "gateway.core.held_bytes"]):
        run = TARGETS[given.target]()
    with tempfile.TemporaryDirectory() as scratch:
        corpus = given.corpus or Path(scratch) / "corpus"
        corpus.mkdir(parents=True, exist_ok=True)
        for at, seed in enumerate(seeds(given.target)):
            (corpus / f"seed-{at:03}").write_bytes(seed)
        options = [f"-max_total_time={given.seconds}", f"-max_len={_MOST_BYTES}", "-timeout=20"]
        atheris.Setup([sys.argv[0], str(corpus), *options], run)
        atheris.Fuzz()  # ends the process: 0, or another code at the first failure
    return 0


if __name__ == "__main__":
    sys.exit(main())
