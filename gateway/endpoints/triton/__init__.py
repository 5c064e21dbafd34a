"""The Triton server that the gateway carries: how it is found, started, watched and ended."""

from __future__ import annotations


class TritonServerError(RuntimeError):
    """The embedded Triton cannot run; the message says what to do about it."""


class TritonNotInstalled(TritonServerError):
    """The optional package that carries the server is missing, or cannot run on this Python."""


class TritonStartError(TritonServerError):
    """The server ended, or took too long, before it listened."""
