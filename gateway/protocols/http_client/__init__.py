"""The HTTP/1.1 client for calls to endpoints: one call at a time on a connection, which is kept.

`wire` sends requests to an `origin` and holds the pool, `connection` has one call at a time,
`answer` reads what comes, `plain` the usual whole answer, `idle` has connections between calls. Why
not httpx:
docs/decisions/013-http-server-and-client.md.
"""
