"""A registry behind HTTP that is down, slow, cut, lost or hostile."""

from __future__ import annotations

import gzip
import http.server
import itertools
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gateway.models.registry import (
    FILES,
    NotThere,
    RegistryDenied,
    RegistryError,
    RegistryUnreachable,
    UnfitVersion,
    VersionExists,
)
from gateway.models.registry.fetching import Source
from gateway.models.registry.kinds.web import ATTEMPTS, Access, WebOrigin
from gateway.models.registry.kinds.website import WebsiteRegistry
from gateway.models.registry.pulling import Pull, Pulled, RequestedVersion, pull
from tests.unit.models.registry import rig, servers
from tests.unit.models.registry.rig import NAME, fingerprint
from tests.unit.models.registry.servers import Answer

Request = http.server.BaseHTTPRequestHandler


class Pauses:
    """What would have been waited."""

    def __init__(self) -> None:
        self.waited: list[float] = []

    def __call__(self, pause_s: float) -> None:
        self.waited.append(pause_s)


def status(code: int, body: bytes = b"", **headers: str) -> Answer:
    def answer(request: Request) -> None:
        request.send_response(code)
        for name, value in headers.items():
            request.send_header(name.replace("_", "-"), value)
        request.send_header("content-length", str(len(body)))
        request.end_headers()
        request.wfile.write(body)

    return answer


def asked(answer: Answer, **more: float) -> dict[str, object]:
    with servers.misbehaving(answer) as url:
        site = WebOrigin(url, Access(pause=Pauses(), **more))  # type: ignore[arg-type]
        try:
            return site.json("GET", "/x")
        finally:
            site.close()


@pytest.mark.parametrize(
    ("answer", "kind", "told"),
    [
        (status(401), RegistryDenied, "check the credentials"),
        (status(403), RegistryDenied, "check the credentials"),
        (status(404), NotThere, "has nothing at /x"),
        (status(412), VersionExists, "has that already"),
        (status(429), RegistryUnreachable, "try again later"),
        (status(500), RegistryUnreachable, "try again later"),
        (status(503), RegistryUnreachable, "try again later"),
        (status(400), UnfitVersion, "check the registry's URL"),
        (status(200, b"<html>Sign in</html>"), UnfitVersion, "a web page: a login"),
        (status(200, b"[]"), UnfitVersion, "no JSON"),
        (status(200, b""), UnfitVersion, "no JSON"),
        (status(200, b" " * (9 << 20)), UnfitVersion, "is larger than"),
        (status(200, gzip.compress(b"{}"), content_encoding="gzip"), UnfitVersion, "compresses"),
        (status(302, location="http://other.example/x"), UnfitVersion, r"on to other\.example"),
        (status(307, location="https://127.0.0.1/x"), UnfitVersion, r"on to 127\.0\.0\.1"),
        (status(302, location="/x"), UnfitVersion, "redirects in a circle"),
        (status(302), UnfitVersion, "redirects in a circle"),
    ],
)
def test_what_a_server_answers_is_told_in_words(
    answer: Answer, kind: type[RegistryError], told: str
) -> None:
    with pytest.raises(kind, match=told):
        asked(answer)


def test_a_redirect_on_the_same_host_is_followed_with_the_credentials() -> None:
    seen: list[tuple[str, str | None]] = []

    def answer(request: Request) -> None:
        seen.append((request.path, request.headers["authorization"]))
        onward = status(302, location="/y") if request.path == "/x" else status(200, b'{"a": 1}')
        onward(request)

    with servers.misbehaving(answer) as url:
        site = WebOrigin(url, Access(token="t"))
        assert site.json("GET", "/x") == {"a": 1}
        site.close()
    assert seen == [("/x", "Bearer t"), ("/y", "Bearer t")]


def test_a_server_that_does_not_listen_is_unreachable() -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        pauses = Pauses()
        site = WebOrigin(f"http://127.0.0.1:{closed.getsockname()[1]}", Access(pause=pauses))
        with pytest.raises(RegistryUnreachable, match="is it up, and is its URL right"):
            site.json("GET", "/x")
        site.close()
    assert pauses.waited == [0.25, 0.5, 1.0]


def test_a_server_that_says_nothing_is_given_up() -> None:
    over = threading.Event()

    def silent(request: Request) -> None:
        over.wait(20)

    try:
        with pytest.raises(RegistryUnreachable, match="did not answer in time"):
            asked(silent, silent_s=0.05)
    finally:
        over.set()


def test_trouble_that_passes_is_waited_out() -> None:
    answers = iter([status(503), status(429), status(200, b'{"a": 1}')])
    assert asked(lambda request: next(answers)(request)) == {"a": 1}


def test_nothing_of_the_environment_stands_between(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    assert asked(status(200, b'{"a": 1}')) == {"a": 1}


def test_keys_of_tls_are_not_written_where_the_environment_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSLKEYLOGFILE", str(tmp_path / "keys"))
    site = WebOrigin("https://127.0.0.1:9", Access(pause=Pauses()))
    with pytest.raises(RegistryUnreachable):
        site.json("GET", "/x")
    site.close()
    assert not (tmp_path / "keys").exists()


def test_an_authority_that_is_no_file_of_certificates_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RegistryError, match="is not a PEM file of certificates"):
        WebOrigin("https://127.0.0.1", Access(ca_file=tmp_path / "none"))


# --- a pull from such a server ---


class Shelf:
    """A web server over a shelf, whose answers to some paths are broken."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.broken: dict[str, Callable[[Request, bytes, int], None]] = {}
        self.asked: list[tuple[str, int]] = []

    def __call__(self, request: Request) -> None:
        path = self._directory / request.path.lstrip("/")
        start = int((request.headers["range"] or "bytes=0-")[6:-1])
        self.asked.append((path.name, start))
        if not path.is_file():
            status(404)(request)
        elif path.name in self.broken:
            self.broken[path.name](request, path.read_bytes(), start)
        else:
            whole(request, path.read_bytes(), start)


def whole(request: Request, content: bytes, start: int) -> None:
    status(206 if start else 200, content[start:])(request)


def cut_after(count: int) -> Callable[[Request, bytes, int], None]:
    """So many bytes from where it was asked to start, then the connection is gone."""

    def answer(request: Request, content: bytes, start: int) -> None:
        request.send_response(206 if start else 200)
        request.send_header("content-length", str(len(content) - start))
        request.end_headers()
        request.wfile.write(content[start : start + count])

    return answer


def without_ranges(count: int) -> Callable[[Request, bytes, int], None]:
    """From the beginning, whatever was asked; cut the first time."""
    times = itertools.count()

    def answer(request: Request, content: bytes, start: int) -> None:
        (cut_after(count) if next(times) == 0 else whole)(request, content, 0)

    return answer


@pytest.fixture
def shelf(tmp_path: Path) -> Iterator[tuple[Shelf, Callable[[], Pulled], Path]]:
    found = Shelf(rig.shelf(tmp_path))
    repository = rig.repository(tmp_path)
    with servers.misbehaving(found) as url:
        registry = WebsiteRegistry(url, Access(pause=Pauses(), silent_s=2.0))
        source = Source(registry, pause=Pauses())
        yield (
            found,
            lambda: pull(Pull(repository, source, list), RequestedVersion(NAME, try_first=False)),
            repository,
        )
        registry.close()


def test_a_file_that_is_cut_goes_on_where_it_was_cut(
    shelf: tuple[Shelf, Callable[[], Pulled], Path],
) -> None:
    found, pulled, repository = shelf
    size = len((repository / NAME / "1" / "model.onnx").read_bytes())
    found.broken["model.onnx"] = cut_after(size // 3 + 1)
    assert pulled().installed
    starts = [start for name, start in found.asked if name == "model.onnx"]
    assert starts == [0, size // 3 + 1, 2 * (size // 3 + 1)]


def test_a_server_without_ranges_is_read_from_the_beginning_again(
    shelf: tuple[Shelf, Callable[[], Pulled], Path],
) -> None:
    found, pulled, repository = shelf
    found.broken["model.onnx"] = without_ranges(1000)
    assert pulled().installed
    one, two = (fingerprint(repository / NAME / version) for version in ("1", "2"))
    assert one.items() <= two.items()


@pytest.mark.parametrize(
    ("broken", "kind", "told"),
    [
        (cut_after(0), RegistryUnreachable, "Then try again"),
        (cut_after(100), RegistryUnreachable, "Then try again"),
        (
            lambda request, content, start: status(503)(request),
            RegistryUnreachable,
            "try again later",
        ),
        (lambda request, content, start: status(404)(request), NotThere, "has nothing at"),
        (
            lambda request, content, start: status(200, b"<html>")(request),
            UnfitVersion,
            "ends after 6",
        ),
        (
            lambda request, content, start: status(200, content + b"x")(request),
            UnfitVersion,
            "is larger than",
        ),
        (
            lambda request, content, start: status(200, content[::-1])(request),
            UnfitVersion,
            "SHA-256 is another",
        ),
    ],
)
def test_a_pull_that_fails_changes_nothing(
    broken: Callable[[Request, bytes, int], None],
    kind: type[RegistryError],
    told: str,
    shelf: tuple[Shelf, Callable[[], Pulled], Path],
) -> None:
    found, pulled, repository = shelf
    found.broken["model.onnx"] = broken
    before = fingerprint(repository)
    with pytest.raises(kind, match=told):
        pulled()
    assert fingerprint(repository) == before
    assert rig.left_over(repository) == []
    assert len([name for name, _ in found.asked if name == "model.onnx"]) <= ATTEMPTS
    del found.broken["model.onnx"]
    assert pulled().installed


def test_a_web_server_is_not_pushed_to(tmp_path: Path) -> None:
    registry = WebsiteRegistry("http://127.0.0.1:9", Access())
    with pytest.raises(RegistryError, match="a web server takes no versions"):
        registry.write(NAME, 1, {f"{FILES}a": b""}, lambda size: None)
    registry.close()
