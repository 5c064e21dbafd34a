"""A folder that carries the measurements of a card to a machine that has no network.

`__main__` makes it, `pieces` says what is in it, `fatbin` and `rounding` make the two largest files
small, and `run.sh` and `unpack.py` go along.
"""
