"""Numbers of customers, employees and students, beside their words (labels.py).

They have no form and no check digit that holds for all: a code of five digits, or of four and a
letter, is one where its label says so.
"""

from __future__ import annotations

from typing import ClassVar

from presidio_analyzer import Pattern

from gateway.classify.identifiers import coded
from gateway.classify.identifiers.documents import DocumentNumber
from gateway.classify.labels import CUSTOMER, EMPLOYEE, STUDENT, Owner, joined, unaccented_too

_SOME = r"(?:(?-i:[A-Z]{1,5})[-./ ]?)?\d(?:[-./]?\d)"
_CODE = _SOME + r"{3,15}(?-i:[A-Z]{0,2})"


def _numbered(owner: Owner) -> Pattern:
    return coded(unaccented_too(owner.words), _CODE)


HEADS = coded(
    unaccented_too(joined(CUSTOMER, EMPLOYEE, STUDENT).words), _SOME + "{3}"
).regex.partition("(?![\\w])")[0]
"""Stands in every match of theirs, and in one expression."""


class CustomerNumber(DocumentNumber):
    entity = "CUSTOMER_NUMBER"
    forms: ClassVar[tuple[Pattern, ...]] = (_numbered(CUSTOMER),)


class EmployeeNumber(DocumentNumber):
    entity = "EMPLOYEE_NUMBER"
    forms: ClassVar[tuple[Pattern, ...]] = (_numbered(EMPLOYEE),)


class StudentNumber(DocumentNumber):
    entity = "ID_CARD"
    forms: ClassVar[tuple[Pattern, ...]] = (_numbered(STUDENT),)
