"""Why a model could not be built, checked or made smaller."""

from __future__ import annotations

import re

_SOURCE = re.compile(r"/onnxruntime_src/\S+:\d+ .*?[)>] (?=[A-Z])", re.DOTALL)
"""As ONNX Runtime names it: file, line and signature."""
_MOST_CHARACTERS = 2000


class ModelCommandFailed(Exception):
    """The message says what was wrong and what to do. Nothing that serves was touched."""


class WrongModel(ModelCommandFailed):
    """What was given is no model, or not the declared one."""


class GateClosed(ModelCommandFailed):
    """A variant is too far from the reference to serve."""


def needs(package: str, extra: str) -> ModelCommandFailed:
    return ModelCommandFailed(
        f"needs {package}; install it with: pip install 'spillway-gateway[{extra}]'"
    )


def cause(exc: Exception) -> str:
    """All that a library says, on one line, without the place in its source."""
    text = " ".join(_SOURCE.sub("", str(exc)).split())
    return text[:_MOST_CHARACTERS] or type(exc).__name__
