"""One bug, or none, under the race matrix: ``python -m tests.mutants.race_probe NAME``; one line of JSON.

Only the SQL is broken: the memory store, which says what is allowed, stays sound.
"""

from __future__ import annotations

import os
import sys

from noeta.testing.postgres import Server, find_source, fresh_schema
from noeta.testing.race_matrix import Arena, run_matrix
from noeta.testing.race_scenes import Scene, scenes
from tests.mutants.answer import Answer, say
from tests.mutants.catalogue import BY_NAME


def main(name: str) -> Answer:
    edits = () if name == "true" else BY_NAME[name].sql
    pairs = 0
    with Server(find_source(os.environ)) as server:
        for scene in _first(name):
            with fresh_schema(server.dsn) as lease:
                arena = Arena(server.dsn, lease.name, patches=edits)
                try:
                    report = run_matrix(arena, chosen=[scene], disagreements_max=1)
                finally:
                    arena.close()
            pairs += report.pairs
            if report.disagreements:
                bad = report.disagreements[0]
                what = f"scene {scene.name!r}, {bad.ending}: no order of the two explains what they left"
                return Answer("invalid", f"{bad.first} | {bad.second}", what, pairs)
    return Answer("valid" if pairs else "unknown", what=f"{pairs} pairs", runs=pairs)


def _first(name: str) -> list[Scene]:
    """The scene that shows the bug first, if the catalogue knows it, then the others."""
    quick = "" if name == "true" else BY_NAME[name].quick.race
    return sorted(scenes(), key=lambda scene: scene.name != quick)


if __name__ == "__main__":
    say(main(sys.argv[1]))
