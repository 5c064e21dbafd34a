"""C12: what is logged tells what happened and where, at any level, and never what was in a call."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator

import pytest

from gateway import logs

MARKER = "4111-1111-MARKER"
LEVELS = ("debug", "info", "warning", "error")


@pytest.fixture(autouse=True)
def logging_as_before() -> Iterator[None]:
    root = logging.getLogger()
    before = (root.level, root.handlers[:], logging.getLogger("gateway").level)
    yield
    root.setLevel(before[0])
    root.handlers[:] = before[1]
    logging.getLogger("gateway").setLevel(before[2])


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def fail_with(text: str) -> None:
    try:
        raise KeyError(text)
    except KeyError as exc:
        raise ValueError(text) from exc


@pytest.mark.parametrize("stream", [io.StringIO, Terminal])
@pytest.mark.parametrize("level", LEVELS)
def test_an_exception_is_logged_by_its_type_and_place(
    level: str, stream: type[io.StringIO]
) -> None:
    out = stream()
    logs.configure(level, out)
    try:
        fail_with(MARKER)
    except ValueError:
        logging.getLogger("gateway.somewhere").exception("it failed")
    text = out.getvalue()
    assert "it failed" in text
    assert "ValueError" in text
    assert f"{__name__}:" in text
    assert MARKER not in text
    assert text.count("\n") == 1


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(
    "library", ["httpx", "httpcore.connection", "h2", "urllib3", "tldextract", "filelock", "grpc",
                "uvicorn.access", "presidio-analyzer", "asyncio", "starlette", "onnxruntime"],
)  # fmt: skip
def test_libraries_do_not_quote_calls_at_any_level(library: str, level: str) -> None:
    out = io.StringIO()
    logs.configure(level, out)
    for at in (logging.DEBUG, logging.INFO):
        logging.getLogger(library).log(at, "GET /?q=%s", MARKER)
    assert out.getvalue() == ""


@pytest.mark.parametrize("library", ["httpx", "asyncio", "presidio-analyzer", "grpc", "httpcore"])
def test_libraries_that_quote_in_their_errors_are_silent(library: str) -> None:
    out = io.StringIO()
    logs.configure("debug", out)
    logging.getLogger(library).error("%s", MARKER)
    assert out.getvalue() == ""


@pytest.mark.parametrize(("level", "heard"), [*zip(LEVELS, (4, 3, 2, 1), strict=True)])
def test_the_level_is_the_gateways_own(level: str, heard: int) -> None:
    out = io.StringIO()
    logs.configure(level, out)
    for name in LEVELS:
        logging.getLogger("gateway.fleet").log(getattr(logging, name.upper()), "said")
    assert out.getvalue().count("said") == heard


def test_a_line_is_one_json_object_whatever_is_in_it() -> None:
    out = io.StringIO()
    logs.configure("info", out)
    logging.getLogger("gateway.x").warning('two\nlines "quoted" %s', "\u00fc\x00")
    (line,) = out.getvalue().splitlines()
    told = json.loads(line)
    assert told["message"] == 'two\nlines "quoted" \u00fc\x00'
    assert (told["level"], told["logger"]) == ("warning", "gateway.x")


def test_where_an_exception_came_from_is_its_innermost_place() -> None:
    with pytest.raises(ValueError, match="x") as caught:
        fail_with("x")
    assert logs.place(caught.tb).startswith(f"{__name__}:")
    assert logs.place(None) == "unknown"
