"""The storm's list of laws: every law there is, and what each must have seen for a run to be more than unknown.

The laws themselves are shipped (`invariants/`). A law that is missing here would let a storm pass without it, so the
list is written out and compared with the catalogue.
"""

from __future__ import annotations

from typing import Final

STORM_LAWS: Final = (
    "one-writer",
    "epochs-rise",
    "gapless-log",
    "acked-stays",
    "terminal-is-final",
    "row-agrees",
    "script-finished",
    "taken-once",
    "wake-once",
    "effect-at-most-once",
    "calls-pair",
    "same-request",
    "jobs-told-once",
    "children-once",
    "timers-once",
    "bounded",
    "never-stuck",
    "waiting-is-free",
    "frozen-holds-nothing",
)
"""By key, in the order of the report."""
