"""The first look at a call: whether anything in it could restrict it. In this process, inline.

`recognized` says, in the scanner, what its recognizers look for: their `needs`. `necessary` turns
an expression into what every match of it must hold, `triggers` lists the signs of text that reads
otherwise when decoded, `database` compiles both, `gate` asks and takes a second look.

The rule of all of it: the gate says "nothing here" only if no recognizer could restrict the text,
in whatever form the scanner would read it. What is not known makes it fire.
"""
