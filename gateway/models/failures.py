"""Why a model could not be built, checked or made smaller."""

from __future__ import annotations


class ModelFailed(Exception):
    """The message says what was wrong and what to do. Nothing that serves was touched."""


class WrongModel(ModelFailed):
    """What was given is no model, or not the declared one."""


class GateClosed(ModelFailed):
    """A variant is too far from the reference to serve."""


def needs(package: str, extra: str) -> ModelFailed:
    return ModelFailed(f"needs {package}; install it with: pip install 'spillway-gateway[{extra}]'")
