"""The serving parts of one version of the settings, and the hand-over to the next version.

`parts` makes and names the parts; `handover` keeps what several versions have in common.
"""
