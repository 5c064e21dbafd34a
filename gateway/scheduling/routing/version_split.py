"""Which version of a model a call gets, where its calls are split among several.

Each caller has a fixed point between 0 and 1, and the versions share that range in their order: a
caller keeps its version for as long as the weights stand, and a version that gets more keeps its
callers.
"""

from __future__ import annotations

import hashlib

from gateway.core.types import InferenceRequest, ServedModel, TensorCall


def preferred_versions(served: ServedModel, request: InferenceRequest) -> list[str]:
    """All versions of a split, that of this caller first, then the others by their weight."""
    point, below = _point(request) * sum(served.versions.values()), 0.0
    heaviest_first = sorted(served.versions, key=lambda version: -served.versions[version])
    own = heaviest_first[0]
    for version in sorted(served.versions, key=int):
        below += served.versions[version]
        if point < below:
            own = version
            break
    return [own, *(version for version in heaviest_first if version != own)]


def _point(request: InferenceRequest) -> float:
    """Of its caller, on every gateway the same; of a call, where nobody says who calls."""
    call = request.payload
    caller = request.caller and f"{request.tenant}\0{request.caller}"
    if not caller and isinstance(call, TensorCall) and call.sequence is not None:
        caller = str(call.sequence)
    # guard: R5.sticky-caller caller or request.id -> request.id
    key = f"{request.model}\0{caller or request.id}".encode()
    return int.from_bytes(hashlib.blake2b(key, digest_size=8).digest()) / (1 << 64)
