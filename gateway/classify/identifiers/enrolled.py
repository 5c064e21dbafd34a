"""Numbers of customers, employees and students, near their words (labels.py).

They have no form and no check digit that holds for all: a code of five digits, or of four and a
letter, is one where its label says so.
"""

from __future__ import annotations

from typing import ClassVar

from presidio_analyzer import Pattern

from gateway.classify.identifiers import coded
from gateway.classify.identifiers.documents import DocumentNumber
from gateway.classify.text.labels import (
    CUSTOMER,
    EMPLOYEE,
    STUDENT,
    NumberHolder,
    joined,
    unaccented_too,
)

_CODE = r"(?:(?-i:[A-Z]{1,5})[-./ ]?)?\d(?:[-./]?\d){3,15}(?-i:[A-Z]{0,2})"


def _numbered(owner: NumberHolder) -> Pattern:
    return coded(unaccented_too(owner.words), _CODE)


WORDS = unaccented_too(joined(CUSTOMER, EMPLOYEE, STUDENT).words)
"""Of all of them: one of these stands in every match."""


class CustomerNumber(DocumentNumber):
    entity = "CUSTOMER_NUMBER"
    forms: ClassVar[tuple[Pattern, ...]] = (_numbered(CUSTOMER),)


class EmployeeNumber(DocumentNumber):
    entity = "EMPLOYEE_NUMBER"
    forms: ClassVar[tuple[Pattern, ...]] = (_numbered(EMPLOYEE),)


class StudentNumber(DocumentNumber):
    entity = "ID_CARD"
    forms: ClassVar[tuple[Pattern, ...]] = (_numbered(STUDENT),)
