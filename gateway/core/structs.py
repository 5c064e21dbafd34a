"""Values that are made for every call: as cheap to make as a class can be.

A frozen dataclass takes three times as long to make as one that is not, since each of its fields is
set through `object.__setattr__`. These are frozen for the type checker alone.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeVar, dataclass_transform

T = TypeVar("T")


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def value(made: type[T]) -> type[T]:
    """A slotted dataclass with a hash, which nobody changes."""
    return dataclass(slots=True, unsafe_hash=True)(made)


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def weakly_referenced_value(made: type[T]) -> type[T]:
    """The same, of which something may be known for as long as it lives."""
    return dataclass(slots=True, unsafe_hash=True, weakref_slot=True)(made)
