"""Which words are words of the language, though they may be somebody's name or within one.

A name like Will, Rose or Weiß is looked for as it is written alone, or a text could not speak of
the will to do something; any other is looked for in whatever case, and as a part of words. It is
not taken for a part of a word that is in the dictionary and nobody's name: there is no Vera in
"several".
"""

from __future__ import annotations

from functools import cache

from gateway.classify.names.model.card import WEIGHTS
from gateway.classify.names.model.lexicon import Lexicon

_EVERYDAY = 5  # frequency from which a word is one of the language whatever else it is
_KNOWN = 2  # frequency of words that are in the dictionary for sure
_NAME = 2  # how well known a name is that is more than a chance entry

COMMON = frozenset(
    (  # noqa: SIM905 - as a list, a line for each language
        "will mark rose grant bill art grace faith joy hope love summer winter spring may march "
        "april june august dawn star sky rain snow storm frost page price cash bond stone wood "
        "woods hill field fields church house hall bank banks bridge day friday king prince "
        "young long short small little old new good best wise strong sharp noble swift rich "
        "frank black white green brown gray grey gold silver north south east west law judge "
        "case chance chase power major minor child cook baker post park gate wall bell horn "
        "singer reader leader speaker walker cross fish bird fox wolf bear rice berry cherry "
        "forest rivers lake brook street lane read moody bush parent temple crystal jade amber "
        "pearl ruby ivy lily violet olive ginger iris pat sue guy duke earl knight bishop pope "
        "bean lemon glass trump "
        "klein gross kurz lang jung alt stark schwarz weiss braun grun rot kaiser konig bauer "
        "richter engel berg bach stein feld wald baum blume busch sonntag freitag montag morgen "
        "abend licht kern kraft sturm sommer herbst koch hahn vogel wolf fuchs graf ritter "
        "meister "
        "blanc noir petit grand gros roux roy duc comte fontaine riviere moulin noel constant "
        "juste claire pierre aime "
        "blanco rojo moreno bravo rey reyes leon cruz flores luz sol mar paz pilar campo campos "
        "angel santos guerra delgado "
        "neri verdi conti re leone costa monti riva villa vita bella alba stella pace "
        "rocha pinto rios vale prado leite carneiro "
        "jong groot lange kort bos vos haan prins "
        "kot krol kowal zima wiosna lis sowa kwiat"
    ).split()
)
"""In plain spelling."""

GENERIC_MAILBOXES = frozenset(
    (  # noqa: SIM905 - as a list
        "abuse account accounts admin administrator alerts all anfrage apply billing bookings "
        "buero careers chef client clients compta comptabilite contact contacto contatto "
        "customer customers data dev dpo email enquiries example feedback finance first "
        "firstname help hello helpdesk hola hr info infos jobs kontakt kundenservice last "
        "lastname legal mail mailbox marketing me media member name newsletter nobody noreply "
        "office no no-reply order orders owner people person postmaster press presse privacy "
        "purchase rechnung reply root sales sample security sekretariat service services shop "
        "someone somebody staff student support team test user username vendas ventas web "
        "webmaster work you your yourname"
    ).split()
)


@cache
def _lexicon() -> Lexicon:
    return Lexicon.load(WEIGHTS / "lexicon.npz")


def is_common(word: str) -> bool:
    """Whether a name in plain spelling is a common word of a language too."""
    if word in COMMON:
        return True
    known = _lexicon().find(word)
    return known.frequency >= _EVERYDAY and known.given <= _NAME


def is_dictionary_word(word: str) -> bool:
    """Whether a word is in the dictionary and no name that anybody has."""
    known = _lexicon().find(word)
    return known.frequency >= _KNOWN and known.given == 0 and known.surname < _NAME


def is_surname(word: str) -> bool:
    return _lexicon().find(word).surname > 0
