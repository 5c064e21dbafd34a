"""What every room may use: requests, replies and errors, deadlines and clocks, logs, tasks.

It imports nothing of the gateway but itself. Start with `types`: an `InferenceRequest` is what a
call is from the moment a protocol has been read until its answer is written.
"""
