"""What a caller says to the gateway itself, by name: headers, gRPC metadata, parameters, fields.

A word that is meant for the gateway and not known where it stands must not be passed over: who
writes `spillway_sensitivity` into a chat's body wants its call kept, and would never learn that
nobody read it. So what begins like one of the gateway's names, in whatever spelling, is one of
them as it stands in docs/reference/headers.md, or the call is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from itertools import chain
from typing import Any
from urllib.parse import unquote_plus

from gateway.config.zones import Zones
from gateway.core.errors import RequestRejected
from gateway.core.types import Parameter, Sensitivity, TensorCall, Zone
from gateway.protocols.oip.datatypes import is_identifier

TRANSLATION = "x-spillway-translation"
HEADERS = frozenset(
    {
        "x-spillway-placement",
        "x-spillway-priority",
        "x-spillway-sensitivity",
        "x-spillway-spill",
        "x-spillway-zones",
    }
    | {TRANSLATION}
)
"""Of a call, and its gRPC metadata."""
LABEL, LABEL_PARAMETER = "x-spillway-sensitivity", "spillway_sensitivity"
RESTRICTED = Sensitivity.RESTRICTED.value
PARAMETERS = frozenset({LABEL_PARAMETER})
"""Of a request of the Open Inference Protocol."""
_NONE: frozenset[str] = frozenset()
_TELLING = "spillway"
_OBJECTS = ("metadata", "extra_body", "extra_headers", "extra_query")
_LISTS = ("messages", "input")
_OBJECTS_ALONE = frozenset({dict})


def check_headers(headers: Mapping[str, str]) -> None:
    """Names in lower case, and those of binary metadata with what follows them. Raises
    RequestRejected."""
    if _TELLING not in "\n".join(headers):
        return
    for name in headers:
        if name not in HEADERS and _is_ours(name):
            raise _unknown("header", name, HEADERS)
    if headers.get(TRANSLATION, "report") != "report":
        raise RequestRejected(f"{TRANSLATION}: can only be report")


def check_query(query: bytes) -> None:
    """Of an inference call, where no parameter of the URL says anything. Raises RequestRejected."""
    for pair in query.split(b"&"):
        name = unquote_plus(pair.partition(b"=")[0].decode("latin-1"))
        if _is_ours(name):
            raise _unknown("query parameter", name, _NONE)


def check_parameters(call: TensorCall) -> None:
    """Raises RequestRejected."""
    if call.parameters:
        _check_keys("parameter", call.parameters, PARAMETERS)
    for tensor in call.inputs:
        if tensor.parameters:
            _check_keys("parameter of a tensor", tensor.parameters)
    for output in call.outputs:
        if output.parameters:
            _check_keys("parameter of an output", output.parameters)


def check_document(document: Mapping[str, Any]) -> None:
    """Of a body of the OpenAI API: its own fields, those of the objects that libraries put the
    caller's own fields into, and those of messages. Raises RequestRejected."""
    keys = [*document]
    for name in filter(document.__contains__, _OBJECTS):
        inner = document[name]
        while isinstance(inner, dict):
            keys += inner
            inner = inner.get("metadata")
    for name in filter(document.__contains__, _LISTS):
        items = document[name]
        if isinstance(items, list):
            if not _OBJECTS_ALONE.issuperset(map(type, items)):
                items = [item for item in items if isinstance(item, dict)]
            keys += chain.from_iterable(items)
    _check_keys("field", keys)


def zones(headers: Mapping[str, str], known: Zones) -> frozenset[Zone]:
    """Those that the call may go to by its own word, on the premises and elsewhere."""
    stated = headers.get("x-spillway-zones")
    if stated is None:
        return known.everywhere
    names = {name.strip().lower() for name in stated.split(",")}
    if not names <= known.by_name.keys():  # guard: S6.zone-names
        there = ", ".join(sorted(known.by_name))
        raise RequestRejected(f"x-spillway-zones: must be some of {there}, with commas between")
    return known.allowed(False, names)  # guard: S6.zones-header names -> None


def stays(headers: Mapping[str, str]) -> bool:
    """Whether the call stays on the premises by its own word."""
    placement = headers.get("x-spillway-placement", "any").lower()
    if placement not in ("onprem", "any", "cloud"):
        raise RequestRejected("x-spillway-placement: must be onprem, any or cloud")
    spill = headers.get("x-spillway-spill", "allow").lower()
    if spill not in ("never", "allow"):  # guard: S6.zone-word
        raise RequestRejected("x-spillway-spill: must be never or allow")
    # guard: S6.zone-header minus 2
    return placement == "onprem" or spill == "never"


def parameter_label(call: TensorCall, classes: frozenset[str]) -> str:
    """By a parameter, since a stream has one set of metadata for many calls."""
    name = f"parameter {LABEL_PARAMETER}"
    return label(name, call.parameters.get(LABEL_PARAMETER), classes)


def label(name: str, stated: Parameter | None, classes: frozenset[str]) -> str:
    """The class that the caller says its call is of at least, or empty. It never says `clear`."""
    if stated is None:
        return ""
    word, known = str(stated).lower(), (RESTRICTED, *sorted(classes))
    if word not in known:
        raise RequestRejected(
            f"{name}: can only be {' or '.join(known)}; leave it out to have the call read"
        )
    return word


def _check_keys(kind: str, keys: Iterable[str], known: frozenset[str] = _NONE) -> None:
    if _TELLING not in "\n".join(keys).casefold():  # most calls
        return
    for key in keys:
        if key not in known and _is_ours(key):
            raise _unknown(kind, key, known)


def _is_ours(name: str) -> bool:
    """Whether it begins like a name of ours, in either case, with whatever stands between words."""
    begin = _BETWEEN.sub("", name[:32]).casefold()
    return begin.startswith(("spillway", "xspillway")) and not _A_WORD.match(name)


_BETWEEN = re.compile(r"[\s._:/-]+")
_A_WORD = re.compile(r"(?:x[-_.]?)?spillways?[a-z0-9]", re.IGNORECASE)  # a longer word than that


def _unknown(kind: str, name: str, known: frozenset[str]) -> RequestRejected:
    shown = f" '{name}'" if is_identifier(name.replace("-", "_")) else ""
    there = f"; known there: {', '.join(sorted(known))}" if known else "; none is known there"
    return RequestRejected(
        f"{kind}{shown}: begins like a name of this gateway and is none{there}. "
        f"A call is labelled by the header x-spillway-sensitivity: restricted",
        reason="unknown_label",
    )
