"""The HTTP/1.1 client for calls to endpoints: one call at a time on a connection, which is kept.

`wire` sends requests and holds the pool, `connection` reads one answer, `plain` the usual head of
an answer, `idle` what connections do between calls. Why not httpx:
docs/decisions/013-http-server-and-client.md.
"""
