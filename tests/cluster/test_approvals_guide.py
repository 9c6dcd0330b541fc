"""The guide to approvals is followed as it is printed: see ``test_waiting_guide``.

``python -m tests.cluster.test_approvals_guide`` writes what is printed today into the page, for a person to review.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from tests.cluster.test_waiting_guide import ROOT, Reader, masked

pytestmark = [pytest.mark.slow, pytest.mark.cluster]

GUIDE = ROOT / "docs/guide/approvals.md"
ORDERS = ["pens:3-0 10 pens", "lamps:3-0 10 lamps"]


def test_the_guide_does_what_it_says(tmp_path: Path) -> None:
    page = GUIDE.read_text()

    followed = Reader(tmp_path, believes=True).follow(page)

    assert masked(followed) == masked(page), "rewrite it: python -m tests.cluster.test_approvals_guide"
    assert (tmp_path / "orders.txt").read_text().splitlines() == ORDERS, "each is ordered once"
    for killed in ("first.log", "second.log"):
        assert "stopped" not in (tmp_path / killed).read_text(), "it was killed, not told to stop"


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as empty:
        GUIDE.write_text(Reader(Path(empty), believes=False).follow(GUIDE.read_text()))
