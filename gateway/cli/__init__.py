"""The commands of `spillway`. Each module has `register(subparsers)`, which adds its parser and
sets `run` to the function that takes the parsed arguments and gives the exit code."""
