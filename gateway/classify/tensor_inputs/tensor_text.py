"""Text that code points may be, told from what the values of pictures and vectors look like: it has
words, as the languages of Europe and people's names have them, or many letters of one script.
"""

from __future__ import annotations

import functools
import re
import unicodedata
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from gateway.classify.tensor_inputs.tensor_numbers import Integers, is_number

Points = npt.NDArray[np.uint32]
"""Code points; 0 for what is no character."""

_BLOCKS = (  # letters of a script, and as many of them in a row as ids hardly ever are
    ("0386-03ce 1f00-1fff", 6),  # Greek
    ("0401-045f 0490-04ff", 6),  # Cyrillic
    ("0531-0587", 6),  # Armenian
    ("05b0-05ea", 6),  # Hebrew
    ("0620-0669 0671-06d3", 6),  # Arabic
    *((f"{start:04x}-{start + 0x7F:04x}", 8) for start in range(0x0900, 0x0F00, 0x80)),  # India
    ("1000-109f", 8),  # Burmese
    ("10a0-10ff", 8),  # Georgian
    ("1200-137f", 8),  # Ethiopic
    ("1780-17ff", 8),  # Khmer
    ("3041-30ff", 6),  # Kana
    ("ac00-d7a3", 8),  # Hangul
    ("4e00-9fff 3041-30ff 3000-3002", 10),
)
_LATIN = r"A-Za-z\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u024f\u1e00-\u1eff"
_BETWEEN = r"[\x20-\x40\t\n\r\u3000-\u3002\uff0c]{0,20}"


def _class(ranges: str) -> str:
    return "".join([r"\u" + each.replace("-", r"-\u") for each in ranges.split()])


_OTHER = re.compile(
    "|".join(rf"(?:[{_class(ranges)}]{_BETWEEN}){{{least},}}" for ranges, least in _BLOCKS)
)
WORD = re.compile(rf"[{_LATIN}]+")
NUMBER = re.compile(r"(?<!\d)\d(?:[ ./-]?\d){8,39}(?!\d)")
_ADDRESS = re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+")
_VOWELS = re.compile(r"[aeiouy]")
_REPEATED = re.compile(r"(.)\1\1")
_ODD = re.compile(r"[^\w\s.,;:'\"()@/?!&+#%-]")
_STAND_TOGETHER = (
    "th he in er an re on at en nd ti es or te of ed is it al ar st to nt ng se ha as ou io "
    "le ve co me de hi ri ro ic ne ea ra ce li ch ll be ma si om ur ca el ta la ns di fo ho "
    "pe ec pr no ct us ac ot il tr ly nc et ut ss so rs un lo wa ge ie wh ee wi em ad ol rt "
    "po we na ul ni ts mo ow pa im mi ai sh ir su id os iv ia am fi ci vi pl ig tu ev ld ry "
    "mp fe bl ab gh ty op wo sa ay ex ke fr oo av ag if ap gr od bo sp rd do uc bu ei ov by "
    "rm ep tt oc fa ef cu rn sc gi da yo cr cl du ga qu ue ff ba ey ls va um pp ua up lu go "
    "ht ru ug ds lt pi rc rr eg au ck ew mu br bi pt ak pu ui rg ib tl ny ki rk ys ob mm fu "
    "ph og ms ye ud mb ip ub oi rl gu dr hr cc tw ft wn nu af hu nn eo vo rv nf xp gn sm fl "
    "iz ok nl my gl aw ju oa eq sy sl ps jo lf nv je nk kn gs dy hy ze ks xt bs ik dd cz sz "
    "rz sk ka zy ko aj ja ku za zi jc ej hn uh ah oh eh ih oe ae tz lz nz kr zu ij aa uu nh "
    "lh ek sv rp mc js jk bj kj jh kh"
)
"""Pairs of letters of the languages of Europe and of names."""
_PAIRS = frozenset(_STAND_TOGETHER.split())
_SIGNS = len(_BLOCKS) - 1  # from this kind on: Hangul and Chinese, thousands of signs
NEAR, REGION = 32, 4096  # elements before a place that is looked at, and from it on
_LEVELS = (
    ("gb2312", 0xA1, 0xD7),
    ("big5", 0xA1, 0xC6),
    ("euc_jp", 0xA1, 0xCF),
    ("euc_kr", 0xA1, 0xC8),
)
LEAST_ALONE = 4  # characters that are read between zeros
_LEAST_WRITTEN = 6


def code_points(values: Integers) -> Points:
    """Zero for what is no character."""
    valid = (values >= 9) & (values <= 0x10FFFF) & ~((values >= 0xD800) & (values <= 0xDFFF))
    return np.where(valid, values, 0).astype("<u4")


def points_text(points: Points) -> str:
    return points.tobytes().decode("utf-32-le")


def texts_in(text: str, *, small: bool) -> Iterator[str]:
    """`text`: with NUL in the place of what is no character. `small`: it is of no picture."""
    for match in _ORDINARY_RUN.finditer(text):
        run = match[0]
        isolated = small and _stands_alone(match, text)
        if reads(run, isolated):
            yield run.strip()
            continue
        for number in NUMBER.finditer(run):
            if stands(number, run, small):
                yield number[0]
        for address in _ADDRESS.finditer(run):
            if reads(address[0], small):
                yield address[0]


def other_scripts(points: Points, *, picture: bool = False) -> Iterator[str]:
    """Letters of one script, which are no picture's: many, apart from each other, and of those
    that a language of thousands of signs uses often. `picture`: pairs of its bytes are such
    signs as a rule, so these are not looked for."""
    for match in _others_in(points, picture):
        run = match[0]
        letters = [sign for sign in run if sign > "\u0370"]
        if len(set(letters)) < 5 or ord(max(letters)) - ord(min(letters)) < 16:
            continue
        if picture and len({ord(sign) >> 8 for sign in letters}) > 1:
            continue
        if max(letters) < "\u4e00" or (not picture and all(map(_is_common, letters))):
            yield run


def _others_in(points: Points, picture: bool) -> Iterator[re.Match[str]]:
    """Around places where letters of one script follow each other."""
    if points.size < LEAST_ALONE or int(points.max()) < 0x370:
        return
    letters = np.flatnonzero((points < 0x20) | (points > 0x40))  # not what stands between words
    kinds = _kinds()[np.where(points < 0x10000, points, 0)[letters]]
    alike = (kinds[1:] == kinds[:-1]) & (kinds[1:] > 0)
    places = _in_a_row(alike & (kinds[1:] < _SIGNS), 3)
    if not picture:
        places = np.union1d(places, _in_a_row(alike, 7))
    end = 0
    for place in letters[places].tolist():
        if place < end:
            continue
        start, end = max(0, place - NEAR, end), place + REGION
        yield from _OTHER.finditer(points_text(points[start:end]))


def _in_a_row(marks: npt.NDArray[np.bool_], count: int) -> npt.NDArray[np.intp]:
    """Where so many of them begin."""
    size = marks.size - count + 1
    if size <= 0:
        return np.zeros(0, np.intp)
    fits = marks[:size]
    for at in range(1, count):
        fits = fits & marks[at : at + size]
    return np.flatnonzero(fits)


@functools.cache
def _kinds() -> npt.NDArray[np.uint8]:
    """The script of each code point that is a letter of those above, as a number from 1 on."""
    kinds = np.zeros(0x10000, np.uint8)
    for at, (ranges, _) in enumerate(_BLOCKS, 1):
        for each in ranges.split():
            first, last = (int(end, 16) for end in each.split("-"))
            kinds[first : last + 1] = at
    return kinds


@functools.cache
def _is_common(sign: str) -> bool:
    """Of Chinese, Japanese or Korean, by the standards that order signs by how often they are
    used: GB 2312 and JIS X 0208, level 1; Big5, level 1; KS X 1001."""
    for encoding, first, last in _LEVELS:
        try:
            octets = sign.encode(encoding)
        except UnicodeEncodeError:
            continue
        if len(octets) == 2 and first <= octets[0] <= last:
            return True
    return False


_ORDINARY_RUN = re.compile(rf"[\t\n\r\x20-\x7e{_LATIN}]{{{LEAST_ALONE},}}")


def _stands_alone(run: re.Match[str], text: str) -> bool:
    """Whether it is between zeros, or all that there is."""
    before, behind = text[max(0, run.start() - 1) : run.start()], text[run.end() : run.end() + 1]
    return before in ("", "\0") and behind in ("", "\0")


def stands(number: re.Match[str], text: str, small: bool) -> bool:
    """Whether it is not a part of a picture's dark places, where neighbours are signs that have
    almost the same code."""
    if not is_number(number[0].encode()):
        return False
    near = text[max(0, number.start() - 1) : number.start()] + text[number.end() : number.end() + 1]
    return small or not any(0 < ord(sign) < 0x41 and sign not in " \n\t" for sign in near)


def reads(run: str, isolated: bool = True) -> bool:
    """Whether it reads like something that was written: words are most of it, of one case, with
    vowels, with pairs of letters that languages have. In the midst of other values it must have
    more than one."""
    words = WORD.findall(run)
    letters = sum(map(len, words))
    least = LEAST_ALONE if isolated else _LEAST_WRITTEN
    plain = sum([letter.isascii() for word in words for letter in word])
    if letters < least or plain < 0.6 * letters or len(_ODD.findall(run)) > 0.05 * len(run):
        return False
    apart = any(map(str.isspace, run)) or _ADDRESS.search(run) is not None
    if not isolated and (len(words) < 2 or not apart):
        return False
    folded = [_folded(word) for word in words if _is_written(word)]
    if sum(map(len, folded)) < max(least, 0.6 * letters):
        return False
    pairs = [word[at : at + 2] for word in folded for at in range(len(word) - 1)]
    return sum(map(_PAIRS.__contains__, pairs)) >= 0.6 * len(pairs)


def _is_written(word: str) -> bool:
    size = len(word)
    if not 3 <= size <= 30 or not (word[1:].islower() or word.isupper()):
        return False
    folded = _folded(word)
    vowels = len(_VOWELS.findall(folded))
    return 0.15 * size <= vowels <= 0.8 * size and _REPEATED.search(folded) is None


def _folded(word: str) -> str:
    lower = word.lower()
    if lower.isascii():
        return lower
    return "".join([c for c in unicodedata.normalize("NFD", lower) if not unicodedata.combining(c)])
