"""Card numbers: which schemes there are, and the check digit. Apart from the recognizers, because
the gate asks it in the gateway's own process, where Presidio is not loaded."""

from __future__ import annotations

import re

# Issuer ranges with the lengths that the schemes issue (ISO/IEC 7812-1; the schemes' own published
# ranges): Visa; Mastercard; American Express; Diners Club; JCB; Discover; UnionPay; Maestro; RuPay,
# InterPayment, InstaPayment, Troy and Mir.
_SCHEMES = tuple(
    (head, frozenset(lengths))
    for head, lengths in (
        (r"4", (13, 16, 19)),
        (r"5[1-5]|222[1-9]|22[3-9]|2[3-6]|27[01]|2720", (16,)),
        (r"3[47]", (15,)),
        (r"30[0-5]|309|36|3[89]", (14, 16, 19)),
        (r"35", (16, 17, 18, 19)),
        (r"2131|1800", (15,)),
        (r"6011|64[4-9]|65", (16, 19)),
        (r"62|81", (16, 17, 18, 19)),
        (r"50|5[6-8]|6304|6390|67|0604", (12, 13, 14, 15, 16, 17, 18, 19)),
        (r"60|636|637|638|639|82|9792|220[0-4]", (16,)),
    )
)

_ZERO = ord("0")
_HEADS = {
    length: re.compile("|".join(head for head, lengths in _SCHEMES if length in lengths))
    for length in frozenset().union(*(lengths for _, lengths in _SCHEMES))
}
"""What numbers of a length begin with."""
_DOUBLED = bytes.maketrans(b"0123456789", b"0246813579")


def is_card_number(digits: str) -> bool:
    """A range and a length that a scheme has, and the check digit of ISO/IEC 7812-1, annex B."""
    heads = _HEADS.get(len(digits))
    if heads is None or not _checks(digits) or digits == digits[0] * len(digits):
        return False
    return heads.match(digits) is not None


def _checks(digits: str) -> bool:
    """Every second digit, from the last but one on, counts twice, its digits added up."""
    if not (digits.isascii() and digits.isdigit()):
        return False
    written = digits.encode()
    total = sum(written[-1::-2]) + sum(written[-2::-2].translate(_DOUBLED))
    return (total - len(written) * _ZERO) % 10 == 0
