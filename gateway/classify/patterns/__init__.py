"""Presidio's findings without running what cannot match: one multi-pattern scan, then the hits.

`alphabet` folds a text to one byte a character. `syntax` turns one of Presidio's expressions into
an over-matching one over those bytes, `automaton` compiles all of them into one Hyperscan database
and `store` keeps it on disk. `gate` holds the database of a registry while it is built, loaded and
replaced. `finder` and `context` are what runs on the hits; `engine` puts it together and finds what
`AnalyzerEngine.analyze` does.

The rule of all of it: whatever is not proven to make no difference runs as Presidio runs it.
"""
