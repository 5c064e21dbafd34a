"""What a server is doing, as far as can be told from what was sent to it and what came back.

A server executes batches one after the other, in each of its instances: copies of a model on one
server (Triton's instance groups), or the places of a server that batches by itself, where every
call has one of its own and no batch waits for its longest call (continuous batching).

All times are those at which the gateway sees things: a batch that goes to an idle instance seems to
begin a round trip after it was sent.
"""
