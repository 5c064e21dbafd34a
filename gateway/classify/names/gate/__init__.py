"""The gate of the names model: which parts of a text could hold a name that identifies somebody.

`kinds` says what each token looks like, one letter a token; `windows` finds, in these letters,
where a full name, a name with a title, a handle of two parts or an address could stand, and
`languages` where the text could be in another language than the model knows. The model reads the
windows alone. The gate is a necessary condition, but for one text with a name in two hundred
(`python -m loadtests.classify.gate`).

Lone names ("Janet's ducks") have no such condition: where they count, the whole text is read.
"""
