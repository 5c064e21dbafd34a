"""A simulated cloud provider, for demo and tests only: a process of its own on real sockets.

It answers in the OpenAI protocol and in the Open Inference Protocol (HTTP and gRPC), can be made
slow, refusing or broken while it runs, and keeps every byte that reached it, so that a test or the
demo can prove what never left the premises. It imports nothing from the gateway, and every answer
of it carries `x-simulated-cloud: 1`.
"""
