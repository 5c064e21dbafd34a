"""Why a credential is not accepted: told to the operator by a metric, and to nobody else."""

from __future__ import annotations

from gateway.core.errors import Unauthenticated

WHY = frozenset(
    {
        "absent",  # none was sent, or in no form that is known here
        "malformed",
        "unknown",
        "wrong_secret",
        "revoked",
        "expired",
        "not_yet_valid",
        "issuer",
        "audience",
        "algorithm",
        "header",
        "no_key",  # the issuer has none of that id
        "signature",
        "claims",
        "operator",
        "unverifiable",  # what it would be checked against cannot be read
    }
)


class NotAccepted(Exception):
    """`why` is one of WHY."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why


def refused() -> Unauthenticated:
    """The one answer to every credential that is wrong in whatever way: which part of it was
    wrong would help whoever guesses."""
    return Unauthenticated("authorization: this key, token or certificate is not accepted")
