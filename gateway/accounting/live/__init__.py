"""The decisions of the last minutes in memory, for the console: figures, shares, explanations."""
