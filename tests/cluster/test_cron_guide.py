"""The guide to cron tables is followed as it is printed: see ``test_waiting_guide``. It takes a minute at the most.

``python -m tests.cluster.test_cron_guide`` writes what is printed today into the page, for a person to review.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from tests.cluster.test_waiting_guide import ROOT, Reader, masked

pytestmark = [pytest.mark.slow, pytest.mark.cluster]

GUIDE = ROOT / "docs/guide/cron.md"
STILL_SECONDS = 70.0
"""A cron knows nothing finer than a minute."""


def test_the_guide_does_what_it_says(tmp_path: Path) -> None:
    page = GUIDE.read_text()

    followed = Reader(tmp_path, believes=True, still=STILL_SECONDS).follow(page)

    assert masked(followed) == masked(page), "rewrite it: python -m tests.cluster.test_cron_guide"


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as empty:
        GUIDE.write_text(Reader(Path(empty), believes=False, still=STILL_SECONDS).follow(GUIDE.read_text()))
