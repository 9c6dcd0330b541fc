"""The parts of the store contract, one file a subject. The public face is `noeta.testing.store_contract`."""

from typing import Final

import pytest

PARTS: Final = (
    "background",
    "bad_input",
    "birth",
    "cancel",
    "claims",
    "closing",
    "contents",
    "endings",
    "family",
    "fence",
    "inbox",
    "kept",
    "leases",
    "orders",
    "races",
    "reads",
    "results",
    "stage",
    "sweeps",
    "timeouts",
    "timers",
    "transitions",
    "waiting",
)

# A failed assertion in here says what it compared, as in a test file of the store's author.
pytest.register_assert_rewrite(*(f"{__name__}.{part}" for part in PARTS))
