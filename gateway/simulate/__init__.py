"""What the decision would have done: its own code on a virtual clock, against modelled servers."""
