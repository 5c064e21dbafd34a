"""From a record to the disk: `writer` gathers records on the loop, `thread` commits them.

`pending` has what no commit has yet, `pace` says whether a commit waits for company, `failure`
what the disk said and for how long it counts as failing, `upkeep` when the journal needs more.
"""
