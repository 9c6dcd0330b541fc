"""``python -m tests.promised``: write a page for each document, of its sentences and the tests that hold them.

``--check`` writes nothing and exits 1 if a sentence has no test, a marker names no sentence, or a page on disk is
another one. ``--lot SEED`` draws ten sentences, of all pages or of ``--page`` alone, and prints them with their tests:
break by hand the line that keeps one, and its test must fail. 64: bad usage; 2: the tests cannot be collected.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from random import Random
from typing import Final

from tests.promised.collecting import ROOT, Holder, NotCollected, collect
from tests.promised.documents import DOCUMENTS, SENTENCES
from tests.promised.page import page, problems
from tests.promised.sentences import Sentence

LOT: Final = 10
"""Sentences drawn at once."""


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.promised", description=__doc__)
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--check", action="store_true", help="exit 1 if a page or a marker is wrong; write nothing")
    what.add_argument("--lot", metavar="SEED", help="draw ten sentences, the same for the same seed")
    by_name = {document.name: document for document in DOCUMENTS}
    parser.add_argument("--page", choices=by_name, help="draw from this page alone")
    try:
        asked = parser.parse_args(arguments)
        if asked.page is not None and asked.lot is None:
            parser.error("--page is for --lot")
    except SystemExit as error:
        return 64 if error.code else 0
    try:
        tests = collect()
    except NotCollected as error:
        sys.stderr.write(f"{error}\n")
        return 2
    if asked.lot is not None:
        lot = drawn(asked.lot, by_name[asked.page].sentences if asked.page is not None else SENTENCES)
        sys.stdout.write("".join(story(sentence, tests) for sentence in lot))
        return 0
    wrong = list(problems(tests))
    for document in DOCUMENTS:
        text, on_disk = page(document, tests), ROOT / document.page
        if not asked.check:
            on_disk.write_text(text, encoding="utf-8")
        elif not on_disk.is_file() or on_disk.read_text(encoding="utf-8") != text:
            wrong.append(f"{document.page.as_posix()} is out of date: run `python -m tests.promised`")
    sys.stderr.write("".join(f"{line}\n" for line in wrong))
    return 1 if wrong else 0


def drawn(seed: str, sentences: Sequence[Sentence] = SENTENCES) -> list[Sentence]:
    """Ten of those of the sentences that are kept as printed, in the documents' order."""
    kept = [sentence for sentence in sentences if not sentence.superseded]
    lot = Random(seed).sample(kept, LOT)
    return sorted(lot, key=sentences.index)


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
