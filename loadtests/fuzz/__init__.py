"""Looks for the costliest input: how long it holds the gateway's loop, and what memory it makes of
its bytes.

    make fuzz                                     two minutes, every family
    make fuzz ARGS="--family frames --seconds 600 --seed 7 --keep var/fuzz"
    python -m loadtests.fuzz --confirm var/fuzz/frames-hold.json

A family (`families.py`) makes inputs out of segments: frames, header lines, members of JSON, events
of an answer. The search (`search.py`) repeats, cuts, joins and changes segments of the costliest
so far. The gateway under test (`subject.py`) is a whole one, in a thread of this process, with a
loop that measures itself: what one turn of it uses of the processor (its thread's time, so that a
busy machine changes nothing), and how far the process grows meanwhile. What was found is then sent
to a `spillway serve` of its own (`confirm.py`), whose `/healthz` is asked meanwhile.

The figure that it is held to: no input of 1 MB without a key, and none of the body limit with one,
holds the loop longer than 50 ms, or memory of more than ten times its size.
"""
