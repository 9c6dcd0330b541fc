"""``python -m tests.promised``: write the page of the document's sentences and the tests that hold them.

``--check`` writes nothing and exits 1 if a sentence has no test, a marker names no sentence, or the page on disk is
another one. ``--lot SEED`` draws ten sentences and prints them with their tests: break by hand the line that keeps
one, and its test must fail. 64: bad usage; 2: the tests cannot be collected.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from random import Random
from typing import Final

from tests.promised.collecting import ROOT, Holder, NotCollected, collect
from tests.promised.page import PAGE, page, problems
from tests.promised.sentences import SENTENCES, Sentence

LOT: Final = 10
"""Sentences drawn at once."""


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.promised", description=__doc__)
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--check", action="store_true", help="exit 1 if the page or a marker is wrong; write nothing")
    what.add_argument("--lot", metavar="SEED", help="draw ten sentences, the same for the same seed")
    try:
        asked = parser.parse_args(arguments)
    except SystemExit as error:
        return 64 if error.code else 0
    try:
        tests = collect()
    except NotCollected as error:
        sys.stderr.write(f"{error}\n")
        return 2
    if asked.lot is not None:
        sys.stdout.write("".join(story(sentence, tests) for sentence in drawn(asked.lot)))
        return 0
    wrong = list(problems(tests))
    on_disk = ROOT / PAGE
    if asked.check:
        if not on_disk.is_file() or on_disk.read_text(encoding="utf-8") != page(tests):
            wrong.append(f"{PAGE.as_posix()} is out of date: run `python -m tests.promised`")
    else:
        on_disk.write_text(page(tests), encoding="utf-8")
    sys.stderr.write("".join(f"{line}\n" for line in wrong))
    return 1 if wrong else 0


def drawn(seed: str) -> list[Sentence]:
    """Ten of the sentences that are kept as printed, in the document's order."""
    kept = [sentence for sentence in SENTENCES if not sentence.superseded]
    lot = Random(seed).sample(kept, LOT)
    return sorted(lot, key=SENTENCES.index)


def story(sentence: Sentence, tests: Mapping[str, Sequence[Holder]]) -> str:
    """A sentence and how to run its tests."""
    row = f"{sentence.row}: " if sentence.row else ""
    lines = [f"{sentence.key}\n  {row}{sentence.words}\n"]
    lines += [f"  held by {test.place}\n    pytest {_node(test)!r}\n" for test in tests.get(sentence.key, ())]
    return "".join(lines)


def _node(test: Holder) -> str:
    """The id that runs the test with all its parameters, on the first store that it runs on."""
    return test.ids[0].partition("[")[0]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
