"""What the references of a settings file stand for: variables, files, and what commands print.

Blocking: a command may take its whole time. No message repeats a value, nor a command's arguments
or its words.
"""

from __future__ import annotations

import os
import selectors
import shlex
import signal
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, Final

from gateway.core import ambient

COMMAND: Final = "command:"
FILE: Final = "file:"
_COMMAND_S: Final = 10.0
_LONGEST: Final = 64 * 1024  # bytes, of what a command prints


class Unresolved(Exception):
    """A reference that stands for nothing; the message says why."""


class References:
    """Of one reading of a file, in which each command runs once."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = environment
        self._printed: dict[str, str] = {}

    def value(self, reference: str) -> str:
        """`NAME`, `file:PATH` or `command:PROGRAM ARGUMENT...`. Raises Unresolved."""
        if reference.startswith(FILE):
            return _read(Path(reference.removeprefix(FILE)))
        if reference.startswith(COMMAND):
            if reference not in self._printed:
                self._printed[reference] = _printed(reference.removeprefix(COMMAND))
            return self._printed[reference]
        try:
            return self._environment[reference]
        except KeyError:
            raise Unresolved(f"the environment has no variable {reference}") from None


def variables(path: Path) -> dict[str, str]:
    """The environment, and over it a file of lines `NAME=value`, as systemd and containers read
    them; a value may stand in quotation marks. Raises Unresolved."""
    given = dict(os.environ)
    for line in _read(path).splitlines():
        name, equals, value = line.strip().partition("=")
        if not equals or name.startswith("#"):
            continue
        quoted = len(value) > 1 and value[0] == value[-1] and value[0] in "\"'"
        given[name.strip()] = value[1:-1] if quoted else value
    return given


def _read(path: Path) -> str:
    try:
        return path.read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError, ValueError):
        raise Unresolved(f"the file {path} cannot be read") from None


def _printed(command: str) -> str:
    """Standard output without space around it, of a program without a shell."""
    try:
        arguments = shlex.split(command)
    except ValueError:
        raise Unresolved("the command has a quotation mark too few") from None
    if not arguments:
        raise Unresolved("the command names no program")
    program = Path(arguments[0]).name
    try:
        process = subprocess.Popen(
            arguments,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    except (OSError, ValueError):
        raise Unresolved(f"the command {program} cannot be started") from None
    with process:
        assert process.stdout is not None
        try:
            ends_s = ambient.monotonic_s() + _COMMAND_S
            output = _output(process.stdout, program, ends_s)
            status = process.wait(max(0.0, ends_s - ambient.monotonic_s()))
        except subprocess.TimeoutExpired:
            raise Unresolved(f"the command {program} takes longer than {_COMMAND_S:g} s") from None
        finally:
            if process.poll() is None:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
    if status != 0:
        raise Unresolved(f"the command {program} ended with {status}")
    try:
        return output.decode("utf-8").strip()
    except UnicodeDecodeError:
        raise Unresolved(f"the command {program} prints no UTF-8 text") from None


def _output(pipe: IO[bytes], program: str, ends_s: float) -> bytes:
    """Raises Unresolved, or TimeoutExpired at `ends_s`."""
    output = bytearray()
    with selectors.DefaultSelector() as selector:
        selector.register(pipe, selectors.EVENT_READ)
        while True:
            # guard: T5.command-time
            if not selector.select(max(0.0, ends_s - ambient.monotonic_s())):
                raise subprocess.TimeoutExpired(program, _COMMAND_S)
            part = os.read(pipe.fileno(), _LONGEST)
            output += part
            if not part:
                return bytes(output)
            if len(output) > _LONGEST:  # guard: T5.command-size
                raise Unresolved(f"the command {program} prints more than {_LONGEST} bytes")
