"""The part of an e-mail address that names somebody."""

from __future__ import annotations

import re

from gateway.classify.pseudonyms.values.spelling import spelled_plainly
from gateway.classify.pseudonyms.values.vocabulary import (
    GENERIC_MAILBOXES,
    is_dictionary_word,
    is_surname,
)

_WORD = re.compile(r"[^\W\d_]+")
_LEAST = 4  # letters of a word that may be a name, or an initial and one


def mailbox(email: str) -> str:
    """What stands before the @."""
    return email.partition("@")[0]


def mailbox_words(box: str) -> list[str]:
    """The words in the box that may be names; none in that of a desk or a role."""
    words = []
    for word in _WORD.findall(box.replace("'", "")):
        spelled = spelled_plainly(word)
        if len(word) < _LEAST or spelled in GENERIC_MAILBOXES or is_dictionary_word(spelled):
            continue
        words.append(word)
        if len(word) > _LEAST and not is_surname(spelled) and is_surname(spelled[1:]):
            words.append(word[1:])  # behind an initial
    return words
