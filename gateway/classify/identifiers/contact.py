"""Addresses of the net: mail, hosts, links."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable
from typing import ClassVar

from presidio_analyzer import Pattern
from presidio_analyzer.predefined_recognizers import IpRecognizer

from gateway.classify.gate.evidence import ADDRESS, ADDRESS_SCORE
from gateway.classify.identifiers import Identifier
from gateway.classify.patterns.narrowing import NarrowingRecognizer
from gateway.classify.scanner.effort import spend

_LABEL = r"[\w-]{1,63}"


class AnyDomainEmail(Identifier):
    """An address at any domain of two labels or more, public or not (RFC 5321, section 4.5.3.1:
    64 characters before the @; section 4.1.2: quoted names; 4.1.3: address literals; RFC 6531:
    letters of any script). The bounded repeats keep the cost linear.

    `git@host` names a service, not a person; `icon@2x.png` a file; `a@b.mean(` is arithmetic.
    """

    entity = "EMAIL_ADDRESS"
    hints = ("email", "mail", "contact")
    forms: ClassVar[tuple[Pattern, ...]] = (
        Pattern(
            "address at any domain",
            ADDRESS,
            ADDRESS_SCORE,
        ),
        Pattern(
            "quoted name",
            rf"(?<!\w)\"[^\"\n@]{{1,64}}\"@(?:{_LABEL}\.){{1,8}}[^\W\d_]{{2,63}}\b",
            0.6,
        ),
        Pattern("address literal", r"(?<![\w.+-])\w[\w.+'-]{0,63}@\[[\d.:a-f]{4,45}\]", 0.6),
    )


_NOT_AN_ADDRESS = re.compile(
    r"(?:\b(?:versi[oóã]\w{1,4}|wersj\w{1,3}|version|release|revision|build|firmware|driver|section"
    r"|chapter|clause|paragraph|article|ver|rev"
    r"|pkwiu|cpv|cpa|nace|hs|cn|taric)\.?[\s:=#v]{0,3}|§ ?|[\w.]/v?|[=<>~^]=? ?|\bv)\Z",
    re.IGNORECASE,
)
_HOST_WORDS = re.compile(r"ip|host|addr|server|dns|ping|adres|direcc|indiriz|endere", re.IGNORECASE)
_DOUBTFUL = re.compile(r"\d(?:\.\d){3}|\d{0,4}::\d{0,4}|[a-f:]+", re.IGNORECASE)
"""Numbers of paragraphs, slices of a list, names in a scope: addresses only when asked for."""
_RESOLVERS = frozenset({"8.8.8.8", "8.8.4.4", "1.1.1.1", "1.0.0.1", "9.9.9.9"})
_PRIVATE = tuple(
    map(
        ipaddress.ip_network,
        (
            *("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16"),  # RFC 1918
            *("127.0.0.0/8", "0.0.0.0/8", "169.254.0.0/16", "255.255.0.0/16"),  # RFC 6890; netmasks
            *("::1/128", "::/128", "fe80::/10", "fc00::/7"),  # RFC 4291, 4193
        ),
    )
)
_STEPS_AN_ADDRESS = 30  # of effort.py: the standard library takes that long to read one


def identifies_nobody(address: str) -> bool:
    """Addresses that every network has, netmasks, and the public resolvers."""
    host = re.split(r"[/%]", address, maxsplit=1)[0]
    try:
        ip = ipaddress.ip_address(
            ".".join(str(int(o)) for o in host.split("."))
            if re.fullmatch(r"[\d.]+", host)
            else host
        )
    except ValueError:
        return False
    return host in _RESOLVERS or any(ip.version == n.version and ip in n for n in _PRIVATE)


class HostAddress(NarrowingRecognizer, IpRecognizer):
    """Presidio's addresses, without version numbers, and without those that identify nobody."""

    def __init__(self, supported_language: str = "en") -> None:
        super().__init__(supported_language=supported_language, name=type(self).__name__)

    def parts(self, text: str, pattern: str, start: int, end: int) -> Iterable[tuple[int, int]]:
        spend(_STEPS_AN_ADDRESS)
        return [(start, end)] if _is_host_part(text, start, end) else []


def _is_host_part(text: str, start: int, end: int) -> bool:
    before = text[max(0, start - 24) : start]
    if _DOUBTFUL.fullmatch(text[start:end]) and not _HOST_WORDS.search(before):
        return False
    return not identifies_nobody(text[start:end]) and not _NOT_AN_ADDRESS.search(before)


class WebAddress(Identifier):
    """An address of the web with its scheme, or with `www.` before it."""

    entity = "URL"
    forms: ClassVar[tuple[Pattern, ...]] = (
        Pattern("scheme", r"\b(?:https?|ftp)://[^\s<>\"'`]{3,1000}", 0.6),
        Pattern("www", r"(?<![\w/.])www\.[\w-]{1,63}\.[^\s<>\"'`]{2,1000}", 0.5),
    )
