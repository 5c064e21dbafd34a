"""`spillway healthcheck`, against listeners that speak TLS or do not."""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from gateway.__main__ import main
from gateway.protocols.tls import TlsFiles, server_context
from tests.unit.pki import Authority, Pair


class Listener(ThreadingHTTPServer):
    statuses: dict[str, int]


class Answers(BaseHTTPRequestHandler):
    server: Listener

    def do_GET(self) -> None:
        self.send_response(self.server.statuses[self.path])
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None: ...


@contextlib.contextmanager
def listener(
    tls: ssl.SSLContext | None = None, ready: int = 200, onprem: int = 200
) -> Iterator[int]:
    server = Listener(("127.0.0.1", 0), Answers)
    server.statuses = {"/readyz": ready, "/readyz/onprem": onprem}
    server.handle_error = lambda *_: None  # type: ignore[method-assign]
    if tls is not None:
        server.socket = tls.wrap_socket(
            server.socket, server_side=True, do_handshake_on_connect=False
        )
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


def serves(pair: Pair, clients: Authority | None = None) -> ssl.SSLContext:
    ca = None if clients is None else clients.file
    return server_context(TlsFiles("test", pair.cert, pair.key, ca))


def check(*options: str) -> int:
    return main(["healthcheck", *options])


@pytest.mark.parametrize("scheme", ["http://", ""])
def test_a_gateway_without_tls(scheme: str, capsys: pytest.CaptureFixture[str]) -> None:
    with listener() as port:
        assert check("--url", f"{scheme}127.0.0.1:{port}") == 0
    with listener(ready=503) as port:
        assert check("--url", f"{scheme}127.0.0.1:{port}") == 1
    assert "is not ready: it answers 503" in capsys.readouterr().err


@pytest.mark.parametrize("scheme", ["https://", ""])
def test_a_gateway_with_tls_whoever_has_signed_it(scheme: str, authority: Authority) -> None:
    """As the image asks its own, without a URL."""
    with listener(serves(authority.issue("gateway.example"))) as port:
        assert check("--url", f"{scheme}127.0.0.1:{port}") == 0
    with listener(serves(authority.issue("gateway.example")), ready=503) as port:
        assert check("--url", f"{scheme}127.0.0.1:{port}") == 1


def test_a_certificate_is_checked_where_an_authority_is_given(
    authority: Authority, tmp_path: Path
) -> None:
    (tmp_path / "other").mkdir()
    other = Authority(tmp_path / "other", "other")
    with listener(serves(authority.issue("127.0.0.1"))) as port:
        url = f"https://127.0.0.1:{port}"
        assert check("--url", url, "--ca-file", str(authority.file)) == 0
        assert check("--url", url, "--ca-file", str(other.file)) == 1


def test_its_files_can_be_given_as_variables(
    authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    shows = authority.issue("spiffe://corp.example/probe")
    with listener(serves(authority.issue("127.0.0.1"), authority)) as port:
        monkeypatch.setenv("SPILLWAY_HEALTHCHECK_URL", f"127.0.0.1:{port}")
        assert check() == 1
        monkeypatch.setenv("SPILLWAY_HEALTHCHECK_CERT_FILE", str(shows.cert))
        monkeypatch.setenv("SPILLWAY_HEALTHCHECK_KEY_FILE", str(shows.key))
        monkeypatch.setenv("SPILLWAY_HEALTHCHECK_CA_FILE", str(authority.file))
        assert check() == 0


def test_whether_restricted_calls_have_a_place_is_another_question() -> None:
    with listener(onprem=503) as port:
        assert check("--url", f"http://127.0.0.1:{port}") == 0
        assert check("--url", f"http://127.0.0.1:{port}", "--onprem") == 1


def test_nobody_there(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        assert check("--url", f"127.0.0.1:{taken.getsockname()[1]}") == 1
    assert "no gateway answers there" in capsys.readouterr().err
