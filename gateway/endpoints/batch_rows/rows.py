"""What is known of whether the rows of one batch of a model influence each other."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Rows(StrEnum):
    """What is known of a model's rows. Only `INDEPENDENT` ones may share a batch."""

    INDEPENDENT = "independent"
    COUPLED = "coupled"
    UNTRIED = "untried"


@dataclass(frozen=True, slots=True)
class RowVerdict:
    """`why` names outputs, sizes and distances, and nothing that is in a tensor."""

    rows: Rows
    why: str = ""

    def __str__(self) -> str:
        return f"{self.rows.value}: {self.why}" if self.why else self.rows.value


INDEPENDENT = RowVerdict(Rows.INDEPENDENT)


@dataclass(frozen=True, slots=True)
class JointLimit:
    """What calls of a model may share a request."""

    rows: int  # of the largest
    tenants_apart: bool = False


class ServerNotReady(Exception):
    """The server did not answer as it may in a while; the message says what it met."""


@dataclass(frozen=True, slots=True)
class Input:
    """One input of a model, its batch axis left out."""

    name: str
    datatype: str
    dims: tuple[int, ...]
