"""The process of one part: ``python -m noeta.chaos.certify.child ORDER ANSWERS LIFELINE``.

It answers with a line of JSON for each line of the card, through a pipe of its own: what a store prints goes
elsewhere. Whatever escapes a part ends this process with a traceback, which is the parent's to tell.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator

import msgspec

from noeta.chaos.certify.asked import Order
from noeta.chaos.certify.card import Line
from noeta.chaos.instrument import die_with_harness
from noeta.chaos.sim.silence import silence


def part_of(name: str) -> Callable[[Order], Iterator[Line]]:
    """What plays a part. Imported only now: one part's needs are no other's."""
    if name == "factory":
        from noeta.chaos.certify.first_look import look as play
    elif name == "contract":
        from noeta.chaos.certify.contract import run_contract as play
    elif name == "model":
        from noeta.chaos.certify.model import compare_with_model as play
    elif name in ("crash", "faults"):
        from noeta.chaos.certify.strikes import strike_everywhere as play
    elif name == "traces":
        from noeta.chaos.certify.traces import compare_traces as play
    elif name == "processes":
        from noeta.chaos.certify.race import race as play
    else:
        assert name == "storm", name
        from noeta.chaos.certify.storm import blow as play
    return play


def main(order: str, answers: int, lifeline: int) -> None:
    """Play the part and answer its lines as they come."""
    die_with_harness(lifeline)
    silence()
    told = msgspec.json.decode(order, type=Order)
    for line in part_of(told.part)(told):
        os.write(answers, msgspec.json.encode(line) + b"\n")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
