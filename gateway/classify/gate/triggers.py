"""Signs in a text that it may say more than it shows: one or more for each step of normalise.py.

`FIRE` sends the text to the scanner. The other kinds ask for a second look, in this process: `MARK`
at the text without its marks, `DOUBLED` with single separators, `FOLD` at all of it folded, `RUN`
at what a run of base64 or hex says, `LINES` at one that is broken over lines, `NUMBER` at the
numbers. `CONFIRM` asks Python whether a match of Hyperscan's is one (confirmation.py).
"""

from __future__ import annotations

import enum
import functools
import sys
from dataclasses import dataclass

import regex

from gateway.classify.gate.necessary import GAP_CHARS
from gateway.classify.text import decoding

DIGITS = 6
"""A number has that many at least: those of fewer are looked for by their own expressions."""
WORDS, CHARACTERS, NUMBERS = "words", "characters", "numbers"
RUNS, DIGIT_RUNS = "runs", "runs that begin with a digit"
"""Families of signs. Signs of one are looked for together. Those with words or marks of two and
more characters in them cost little more than one of them. So do single characters, pairs of the
same one and runs of one set, as long as no words are among them: then each that is found costs,
and code is full of them. Of runs of several sets whose beginnings any text is full of, Hyperscan
makes an automaton each, which costs less than one of all of them: each is looked for alone, but for
small ones that begin with a digit (measured November 2026)."""


class TriggerCheck(enum.IntEnum):
    FIRE = 0
    NUMBER = 1
    RUN = 2
    FOLD = 3
    MARK = 4
    DOUBLED = 5
    LINES = 6
    CONFIRM = 7


@dataclass(frozen=True, slots=True)
class Trigger:
    name: str
    check: TriggerCheck
    expression: str
    caseless: bool = False
    signs: tuple[str, ...] = ()
    """One of them stands wherever the expression matches, and they cost less to look for: the
    expression is only asked where there is one."""
    family: str = WORDS  # signs of one are looked for together


_GAP = "[" + "".join(f"\\x{ord(c):02x}" for c in GAP_CHARS) + "]"
LIST_GAP_CHARS = " ,\t\r\n-./_|·•>;()\"'ABCDEFGHIJKLMNOPQRSTUVWXYZ"
"""Between the digits of a number or a list, as in numbers.py, and between codes."""
_LIST_GAP = r"[ ,\t\r\n\-./_|\U000000b7\U00002022>;()\"'A-Z]"
RUN_CHARS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/_-"
_RUN = "[A-Za-z0-9+/_-]"
_SHORTEST_RUN = 16  # of decoding.py; shorter ones are read where they have digits
_APART = r"[\s:,;-]"  # between octets and codes there

_HEX = "[0-9A-Fa-f]"

# Spaces, dashes and dots beyond ASCII, and what folding drops: they separate, or stand between what
# then stands together.
_SEPARATORS = (
    r"\U000000a0\U000000ad\U000002d7\U0000034f\U0000058a\U000005be\U0000115f\U00001160\U00001400"
    r"\U00001680\U000017b4\U000017b5\U00001806\U0000180b-\U0000180f\U00002000-\U00002017\U00002024"
    r"-\U00002026\U00002028-\U0000202f\U0000205f-\U0000206f\U000020e3\U00002212\U00002796\U00002800"
    r"\U00002e17\U00002e1a\U00002e3a\U00002e3b\U00002e40\U00002e5d\U00003000\U0000301c\U00003030"
    r"\U000030a0\U000030fc\U00003164\U0000fe00-\U0000fe0f\U0000fe31-\U0000fe34\U0000fe4d-\U0000fe4f"
    r"\U0000fe50\U0000fe52\U0000fe55\U0000fe58-\U0000fe5a\U0000fe62\U0000fe63\U0000feff"
    r"\U0000ff08-\U0000ff0f\U0000ff1a\U0000ff3b\U0000ff3d\U0000ff3f\U0000ff5c\U0000ff5e"
    r"\U0000ffa0\U0000fff9-\U0000fffb\U00010ead\U0001bca0-\U0001bca3\U000e0100-\U000e01ef"
    r"\U000000b4\U000000a8\U000000af\U000000b8\U0000ffe3\U000002d8-\U000002dd\U00001fbd-\U00001fc1"
    r"\U00001fcd-\U00001fcf\U00001fdd-\U00001fdf\U00001fed-\U00001fee\U00001ffd-\U00001ffe\U0000203e"
    r"\U00002043\U0000309b\U0000309c\U0000fc5e-\U0000fc63\U0000fdfa\U0000fdfb\U0000fe30"
    r"\U0000fe49-\U0000fe4c\U0000fe70-\U0000fe7e\U0000ff70"
)
# Characters that fold to letters, digits, @ or signs of ASCII, by their blocks.
_FOLDED = (
    r"\U000000aa\U000000b2\U000000b3\U000000b9\U000000ba\U000000bc-\U000000be\U00000132\U00000133"
    r"\U0000013f\U00000140\U00000149\U0000017f\U000001c4-\U000001cc\U000001f1-\U000001f3"
    r"\U000002b0-\U000002b8\U000002e1-\U000002e3\U0000037e\U00001d2c-\U00001d6a\U00001d78"
    r"\U00001d9b-\U00001dbf\U00001e9a\U00001fef\U0000203c\U00002047-\U00002049\U00002070-\U0000209c"
    r"\U000020a8\U00002100-\U0000218b\U00002260\U0000226e\U0000226f\U00002460-\U000024ff"
    r"\U00002a74-\U00002a76\U00002c7c\U00002c7d\U00003200-\U000033ff\U0000a69c\U0000a69d"
    r"\U0000a7f1-\U0000a7f9\U0000ab5c-\U0000ab69\U0000fb00-\U0000fb06\U0000fb29\U0000fe10-\U0000fe19"
    r"\U0000fe35-\U0000fe38\U0000fe47\U0000fe48\U0000fe51\U0000fe54\U0000fe56\U0000fe57"
    r"\U0000fe5b-\U0000fe61\U0000fe64-\U0000fe6b\U0000ff02-\U0000ff07\U0000ff10-\U0000ff19"
    r"\U0000ff1b-\U0000ff1e\U0000ff20-\U0000ff3a\U0000ff3c\U0000ff3e\U0000ff40-\U0000ff5b\U0000ff5d"
    r"\U00010780-\U000107ba\U0001d400-\U0001d7ff\U0001e030-\U0001e06d\U0001ee00-\U0001eeff"
    r"\U0001f100-\U0001f16f\U0001f190\U0001fbf0-\U0001fbf9\U0001ccd6-\U0001ccf9"
)
_ALIKE = r"\U00000370-\U000003ff\U00000400-\U0000052f"  # Greek, Cyrillic
_CAPITALS = "АВЕКМНОРСТУХІЈΑΒΕΖΗΙΚΜΝΟΡΤΥΧ"  # of folding.py  # noqa: RUF001

_NUMBER_WORDS = (
    "zero one two three four five six seven eight nine oh null eins zwei drei vier f.nf sechs"
    " sieben acht neun cero uno dos tres cuatro cinco seis siete ocho nueve z.ro un deux trois"
    " quatre cinq sept huit neuf due tre quattro cinque sei sette otto nove um dois tr.s quatro"
    " sete oito nul een twee drie vijf zes zeven negen jeden dwa trzy cztery pi.. sze.. siedem"
    " osiem dziewi.."
)
_ONE = "(?:" + "|".join(dict.fromkeys(_NUMBER_WORDS.split())) + ")"
_AT = "(?:at|arroba|arobase|chiocciola|ma.pa|собака)"
_DOT = r"(?:[\[({<]\s*(?:dot|\.|punkt)\s*[\])}>]|\s\.\s|\s(?:dot|punkt|punto|kropka|точка)\s)"
_IN_BRACKETS = r"[\[({<]\s*(?:at|ät|@|dot|\.|punkt)"
# \W around the words, of which Hyperscan makes fewer strings than of \s.
_DOTS = (_IN_BRACKETS, r"\s\.\s", r"\W(?:dot|punkt|punto|kropka|точка)\W")
_LABEL = r"[\w+-]{1,63}"  # as in spelled.py


def _with_capital(length: int) -> str:
    """A run of so many characters of base64 or hex, not all of them small letters and signs."""
    return "|".join(
        (f"[a-z+/_-]{{{at}}}" if at else "")
        + "[A-Z0-9]"
        + (f"{_RUN}{{{length - 1 - at}}}" if at < length - 1 else "")
        for at in range(length)
    )


# Of four number words in a row, two have separators on both sides. One by one, Hyperscan finds
# these four times as quickly as in one expression (measured November 2026).
_TWO_NUMBERS = tuple(
    rf"[\s,.;-]{word}[\s,.;-]{{1,3}}{_ONE}[\s,.;-]" for word in dict.fromkeys(_NUMBER_WORDS.split())
)
_PAIR = f"{_HEX}{{2}}"
_HEX_PAIRS = (r"[0-9A-Fa-f\s:,;-]{23}",)  # as long as eight pairs, and of one set of characters
_LONG_WORD = (f"{_RUN}{{{_SHORTEST_RUN}}}",)
_DOUBLED = (r"--|\.\.|  |//|__|\+\+|~~",)
_ENCODED = (r"%[0-9A-Fa-fu]|&[#A-Za-z]|\\[uUx0-3nr._/@+-]|=[0-7A-F][0-9A-F]|<[/A-Za-z!]",)
_SOFT = (r"=\s",)
_BEYOND = (rf"[{_FOLDED}{_SEPARATORS}{_ALIKE}]",)

_ALWAYS = (
    Trigger(
        "address",
        TriggerCheck.FIRE,
        rf"[\w+-]\s?@\s?{_LABEL}(?:\.|\s?{_DOT})[\w+-]",
        caseless=True,
        signs=("@",),
    ),
    Trigger(
        "bracketed at",
        TriggerCheck.FIRE,
        r"[\[({<]\s*(?:at|ät|@)\s*[\])}>]",
        caseless=True,
        signs=(_IN_BRACKETS,),
    ),
    Trigger(
        "spoken address",
        TriggerCheck.FIRE,
        rf"\s{_AT}\s+[\w.+-]{{1,130}}?\s*{_DOT}|{_DOT}\s*[\w.+-]{{1,130}}?\s+{_AT}\s",
        caseless=True,
        signs=_DOTS,
    ),
    Trigger(
        "spoken number",
        TriggerCheck.FIRE,
        rf"{_ONE}(?:[\s,.;-]{{1,3}}{_ONE}){{3}}",
        caseless=True,
        signs=_TWO_NUMBERS,
    ),
    Trigger(
        "pairs of hex",
        TriggerCheck.FIRE,
        f"{_PAIR}(?:{_APART}{{1,8}}{_PAIR}){{7}}",
        signs=_HEX_PAIRS,
        family=RUNS,
    ),
    Trigger(
        "octets in hex",
        TriggerCheck.FIRE,
        f"(?:0x{_PAIR}{_APART}{{1,9}}){{7}}0x{_PAIR}",
        caseless=True,
        signs=(f"0x{_PAIR}{_APART}",),
    ),
    Trigger(
        "code points",
        TriggerCheck.FIRE,
        rf"(?:U\+{_HEX}{{4,6}}[\s,;]{{0,3}}){{7}}",
        caseless=True,
        signs=(rf"U\+{_HEX}{{4}}",),
    ),
    # Over 1,024 characters, as in decoding.py.
    Trigger(
        "blob",
        TriggerCheck.FIRE,
        f"(?:{_RUN}{{32}}){{32}}{_RUN}",
        signs=_LONG_WORD,
        family=RUNS,
    ),
    # To its end, which is one hit for each.
    Trigger(
        "run",
        TriggerCheck.RUN,
        f"(?:{_with_capital(_SHORTEST_RUN)}){_RUN}*(?!{_RUN})",
        signs=_LONG_WORD,
        family=RUNS,
    ),
    Trigger("digits in base64", TriggerCheck.RUN, decoding.DIGITS_IN_BASE64),
    Trigger("number", TriggerCheck.NUMBER, rf"\d(?:{_GAP}*\d){{{DIGITS - 1}}}", family=NUMBERS),
    Trigger(
        "list of numbers", TriggerCheck.NUMBER, rf"\d(?:{_LIST_GAP}{{0,14}}\d){{6}}", family=NUMBERS
    ),
    Trigger(
        "numbers over lines",
        TriggerCheck.NUMBER,
        rf"\d{_LIST_GAP}{{0,12}}\n{_LIST_GAP}{{0,20}}\d",
        family=NUMBERS,
    ),
    Trigger("percent", TriggerCheck.FOLD, "%(?:[0-9A-Fa-f]{2}|u[0-9A-Fa-f]{4})", signs=_ENCODED),
    Trigger(
        "entity",
        TriggerCheck.FOLD,
        r"&(?:#[0-9xX]|[A-Za-z]{2,6}|[A-Za-z][A-Za-z0-9]{1,31};)",
        signs=_ENCODED,
    ),
    Trigger(
        "escape",
        TriggerCheck.FOLD,
        r"\\(?:u[0-9A-Fa-f]{4}|[uUx][{(][0-9A-Fa-f]|U[0-9A-Fa-f]{8}|x[0-9A-Fa-f]{2}|[0-3][0-7]{2})",
        signs=_ENCODED,
    ),
    Trigger(
        "escaped sign",
        TriggerCheck.FOLD,
        r"\\[-._/@+]|[0-9A-Z][-./ ]{0,2}(?:\\{1,2}r)?\\{1,2}n[ \t]{0,12}[-./]?[0-9A-Z]",
        signs=_ENCODED,
    ),
    Trigger("quoted-printable", TriggerCheck.FOLD, "=[0-7A-F][0-9A-F]", signs=_ENCODED),
    Trigger("soft break", TriggerCheck.FIRE, r"[^=]=[ \t]{0,8}\r?\n[ \t]?\S", signs=_SOFT),
    Trigger(
        "run over lines",
        TriggerCheck.LINES,
        rf"{_RUN}{{20}}[ \t>|\"']{{0,12}}(?:\r?\n|(?:\\r)?\\n)[ \t>|\"']{{0,12}}{_RUN}",
        signs=_LONG_WORD,
        family=RUNS,
    ),
    Trigger("tag", TriggerCheck.FOLD, r"</?[A-Za-z][^<>\n]{0,400}>|<!--", signs=_ENCODED),
    Trigger("mark", TriggerCheck.MARK, r"[*`\x00-\x08\x0b\x0c\x0e-\x1f\x7f]", family=CHARACTERS),
    Trigger("underscores", TriggerCheck.MARK, "__|~~", signs=_DOUBLED, family=CHARACTERS),
    Trigger(
        "doubled separator",
        TriggerCheck.DOUBLED,
        r"[\w+](?:-{2,4}|\.{2,4}| {2,4}|/{2,4}|_{2,4}|\+{2,4})\w|\+\+\d",
        signs=_DOUBLED,
        family=CHARACTERS,
    ),
    Trigger("tags of Unicode", TriggerCheck.FIRE, r"[\U000e0000-\U000e007f]"),
    Trigger("reversed", TriggerCheck.FIRE, r"[\U0000202e\U00002067]"),
    Trigger("folded character", TriggerCheck.FOLD, f"[{_FOLDED}]", signs=_BEYOND),
    Trigger(
        "separator beyond ASCII",
        TriggerCheck.FOLD,
        rf"[\w!-~] ?[{_SEPARATORS}]+ ?[\w!-~]|[{_SEPARATORS}]+\w|\w[{_SEPARATORS}]",
        signs=_BEYOND,
    ),
    Trigger(
        "look-alike",
        TriggerCheck.FOLD,
        rf"[{_ALIKE}][\w.+@-]*[A-Za-z0-9@]"
        rf"|[A-Za-z0-9@](?:[0-9.+@_-]|[\U00000080-\U0000ffff])*[{_ALIKE}]"
        rf"|(?<!\w)[{_CAPITALS}]{{1,4}}(?!\w)",
        signs=_BEYOND,
    ),
)


NUMBER = "number"


@functools.cache
def all_triggers() -> tuple[Trigger, ...]:
    digits = Trigger("digit of another script", TriggerCheck.FOLD, f"[{_beyond_ascii(_DIGIT)}]")
    latin = r"[ -~\U000000a0-\U0000024f\U00001e00-\U00001eff]"
    marks = rf"[{_beyond_ascii(_MARK)}\U0000ff9e\U0000ff9f]"
    return (*_ALWAYS, digits, Trigger("marked", TriggerCheck.FOLD, latin + marks))


_DIGIT = r"(?:\d|(?=\p{No})[" + "".join(rf"\p{{nv={n}}}" for n in range(10)) + "])+"
_MARK = r"[\p{Mn}\p{Me}]+"


def _beyond_ascii(expression: str) -> str:
    characters = "".join(map(chr, range(0x80, sys.maxunicode + 1)))
    matches = regex.finditer(expression, characters)
    return "".join(f"\\U{ord(m[0][0]):08x}-\\U{ord(m[0][-1]):08x}" for m in matches)
