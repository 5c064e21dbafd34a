"""Wire formats, without a thought of what a call is for: bytes in, values out, and back.

`http` is the HTTP/1.1 server, `http_client` its counterpart towards endpoints, `http2` what gRPC
needs of HTTP/2, `oip` the Open Inference Protocol (KServe v2), `strictjson` JSON as every parser
reads it. `listeners` opens the ports, `tls` makes their contexts. It imports `core` and `config`.
"""
