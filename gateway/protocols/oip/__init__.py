"""The Open Inference Protocol (KServe v2) as values: bytes in, values out, and back. No I/O.

`rest` and `grpc` are its two wire forms, and both meet in `TensorCall` and `TensorReply`, so that
a caller of one can be served by an endpoint of the other.
"""
