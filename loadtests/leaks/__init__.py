"""Restricted calls in generated forms and fields, under faults, and what of them reached the cloud.

    python -m loadtests.leaks --calls 100000 --seed 7

A real gateway stands between generated callers and the simulated cloud, which writes every byte
that reaches it to a file. Each call carries a reference of four plain words that no other call has;
`witness.py` reads the file and names the calls whose references are in it. It does not ask the
gateway. Restricted calls must not be there; clear controls, which have the same shapes and look
alike, must. Triton is stopped and killed, scanners are killed, the cloud refuses, hangs and cuts,
and the settings are read again while the calls go on (`faults.py`).

The values, forms and fields are this program's own (`values.py`, `shapes.py`): they were written
apart from the rules that they try.
"""
