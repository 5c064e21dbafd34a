"""Which of the lines of a Triton may be logged: none that could quote a call."""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass

_LINE = re.compile(
    r"(?P<level>[IWEF])\d{4} [\d:.]+ \d+ (?P<place>(?P<file>[\w.]+):\d+)\] ?(?P<text>.*)"
)
# Triton tells forty lines of a start that goes well.
_LEVELS = {"I": logging.DEBUG, "W": logging.WARNING, "E": logging.ERROR, "F": logging.CRITICAL}
LOADED = re.compile(r"successfully loaded '(?P<model>[^']+)'")
# Written before Triton listens, so before there can be a call; one of them always is.
_BEFORE_CALLS = frozenset({"tritonserver.cc", "grpc_server.cc", "http_server.cc"})
_STARTED = '"Started '  # ... Service at address:port
# Sources that write of the server's and its models' life, never of a call.
_WITHOUT_CONTENT = frozenset(
    {
        "main.cc",
        "metrics.cc",
        "model_lifecycle.cc",
        "model_repository_manager.cc",
        "server.cc",
        "stub_launcher.cc",
        "tritonserver.cc",
    }
)
# What Triton calls errors and warnings on every machine without a GPU, and for what lies beside a
# model's versions in ours.
_HARMLESS = (
    "CudaDriverHelper has not been initialized",
    "ignore version directory",
    "pinned system memory",
)


@dataclass(slots=True)
class LogFilter:
    """Decides what of the server's output may be logged: all, until the first call can come."""

    serving: bool = False
    listeners: int = 0  # how many of its ports the server said that it listens on

    def record(self, line: str) -> tuple[int, str] | None:
        line = line.rstrip()
        parts = _LINE.match(line)
        if parts is None:
            # A model's own output, or the tables that Triton draws.
            drawn = line.startswith(("+", "|"))
            return None if self.serving or drawn or not line else (logging.INFO, line)
        place, text, level = parts["place"], parts["text"], _LEVELS[parts["level"]]
        self.serving = self.serving or parts["file"] in _BEFORE_CALLS
        self.listeners += parts["file"] in _BEFORE_CALLS and text.startswith(_STARTED)
        if self.serving and not self._without_content(parts["file"], text):
            return level, f"{place} (message withheld: it may quote a call)"
        if any(phrase in text for phrase in _HARMLESS):
            level = logging.DEBUG
        return level, f"{place} {text}"

    @staticmethod
    def _without_content(file: str, text: str) -> bool:
        return file in _WITHOUT_CONTENT or (file in _BEFORE_CALLS and text.startswith(_STARTED))
