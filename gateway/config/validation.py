"""A YAML file as a section, or as the lines that say what is wrong in it."""

from __future__ import annotations

from typing import TypeVar

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from gateway.config.section import Contradiction, Section
from gateway.config.zones import CONTEXT
from gateway.core.yaml_document import ConfigError, ConfigFile, Where

_S = TypeVar("_S", bound=Section)


def validated(file: ConfigFile, kind: type[_S]) -> _S:
    """Raises ConfigError, each line `file:line: key: what to do`."""
    try:
        zones = file.document.get("zones") if isinstance(file.document, dict) else None
        names = tuple(map(str, zones)) if isinstance(zones, dict) else ()
        return kind.model_validate(file.document, context={CONTEXT: names})
    except ValidationError as exc:
        problems = exc.errors(include_input=False, include_url=False)
        lines = [_explained(problem, file) for problem in problems]
    raise ConfigError("\n".join(lines))  # out here: the exception may quote secrets


def _explained(problem: ErrorDetails, file: ConfigFile) -> str:
    where, message = tuple(problem["loc"]), problem["msg"].removeprefix("Value error, ")
    if problem["type"] == "extra_forbidden":
        message = "unknown key" + _suggestion(where)
    elif problem["type"] == "missing":
        message = "is missing" + _choices(where)
    contradiction = problem.get("ctx", {}).get("error")
    if isinstance(contradiction, Contradiction):
        where, message = (*where, *contradiction.where), contradiction.message
    return file.at(where, message)


def _choices(where: Where) -> str:
    key = where[-1] if where else None
    if key == "zone":
        return "; every endpoint says cloud or onprem"
    return ""


def _suggestion(where: Where) -> str:
    import difflib  # only on the way to an error message

    names = {f for section in Section.__subclasses__() for f in section.model_fields}
    close = difflib.get_close_matches(str(where[-1]), names, n=1) if where else []
    return f"; did you mean {close[0]}?" if close else ""
