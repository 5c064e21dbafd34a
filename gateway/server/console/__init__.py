"""The page `/console`: what the gateway does now, for whoever is on call.

`decisions` takes in every call once it has ended, which is all that a call costs; everything else
is worked out while somebody looks. `feed` sends one picture and then what changes of it; `front`
serves it with the page's files (`static/`, built from `web/`). Nothing here has any content: it
reads decision records and the endpoints' figures.
"""
