"""One embedded Triton, from its launch to its end: `server` keeps its process up."""
