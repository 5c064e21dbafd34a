"""The parts of the scheduler: who waits, what each is worth, who stays, and when batches go.

`scheduler` tells them of events. None of them has a clock, and each says what is to be done now.
"""
