"""Why a model could not be built, checked or made smaller."""

from __future__ import annotations


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
