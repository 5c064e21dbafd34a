"""The operations that callers can ask for, as data: a file for each, and the table of all.

A new operation is a module with one `OperationSpec` and its line in `registry`. It says under which
path it is asked for, which models serve it, what its body must hold and needs of an endpoint, and
how its answer comes. Whoever treats operations differently reads that from the spec.
"""
