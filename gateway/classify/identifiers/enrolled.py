"""Numbers of customers, employees and students, beside their words (labels.py).

They have no form and no check digit that holds for all: a code of five digits, or of four and a
letter, is one where its label says so.
"""

from __future__ import annotations

from typing import ClassVar

from presidio_analyzer import Pattern

from gateway.classify.identifiers import coded
from gateway.classify.identifiers.documents import DocumentNumber
from gateway.classify.labels import CUSTOMER, EMPLOYEE, STUDENT, unaccented_too

_CODE = r"(?:(?-i:[A-Z]{1,5})[-./ ]?)?\d(?:[-./]?\d){3,15}(?-i:[A-Z]{0,2})"


class CustomerNumber(DocumentNumber):
    entity = "CUSTOMER_NUMBER"
    forms: ClassVar[tuple[Pattern, ...]] = (coded(unaccented_too(CUSTOMER.words), _CODE),)


class EmployeeNumber(DocumentNumber):
    entity = "EMPLOYEE_NUMBER"
    forms: ClassVar[tuple[Pattern, ...]] = (coded(unaccented_too(EMPLOYEE.words), _CODE),)


class StudentNumber(DocumentNumber):
    entity = "ID_CARD"
    forms: ClassVar[tuple[Pattern, ...]] = (coded(unaccented_too(STUDENT.words), _CODE),)
