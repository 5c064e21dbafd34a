"""Which waiting calls stay on the premises, which leave now, and when a batch goes to its server.

Everything in here is pure: no clock of its own, no waiting, no randomness. Events and the time go
in, actions come out, so that the live gateway and `spillway simulate` run the same code.
"""
