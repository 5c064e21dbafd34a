"""All families. A new one is an `alphabet` of segments and a `render` of them, in a tuple here."""

from __future__ import annotations

from loadtests.fuzz import http1_inputs, http2_inputs
from loadtests.fuzz.inputs import Family

FAMILIES: dict[str, Family] = {
    family.name: family for family in (*http2_inputs.FAMILIES, *http1_inputs.FAMILIES)
}
