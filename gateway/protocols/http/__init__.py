"""The HTTP/1.1 server of the listeners: connections, exchanges, and ASGI over them.

A `reader` parses (httptools), a connection keeps order; an `HttpExchange` is one request and its
answer, which the application is called with. Inference calls are answered on it directly;
everything else is a Starlette application, through `asgi`. Why a server of our own:
docs/decisions/013-http-server-and-client.md.
"""

from __future__ import annotations


class ClientLeft(Exception):
    """The caller closed the connection. Nobody is left to answer."""
