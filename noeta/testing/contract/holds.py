"""Which sentences of the documents a rule of the contract holds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

ATTRIBUTE: Final = "holds"
"""Where the keys stand on a test function."""

F = TypeVar("F", bound=Callable[..., object])


def holds(*keys: str) -> Callable[[F], F]:
    """Name the sentences that this rule holds, by their keys; this repository makes a page of them.

    No marker of pytest: a store author's run with ``--strict-markers`` would not know it.
    """

    def mark(rule: F) -> F:
        rule.__dict__[ATTRIBUTE] = keys
        return rule

    return mark
