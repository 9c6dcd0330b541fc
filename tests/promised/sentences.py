"""What a document promises, sentence by sentence: word for word, in its order, one module a document.

Tests name a sentence by its key: ``@pytest.mark.holds("wake/early-wake-kept")``. A sentence that this design replaced
says why; a test may still name it, and then holds what stands in its place. Headings, links and the introductions of
tables promise nothing and are left out. A sentence that promises two things stands here in two parts.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

PAGES: Final = Path("docs")


@dataclass(frozen=True, slots=True)
class Sentence:
    """One promise of a document.

    ``key`` is short and stays when the list grows; ``words`` are the document's; ``row`` says which row and column of
    a table they are a cell of. ``superseded``: why this design does otherwise. ``later``: what of the sentence is
    not there yet; what is there needs its test all the same.
    """

    key: str
    words: str
    row: str = ""
    superseded: str = ""
    later: str = ""


Sections = tuple[tuple[str, tuple[Sentence, ...]], ...]
"""Headings, and what stands below each."""


@dataclass(frozen=True, slots=True)
class Document:
    """One document and its page. ``name``: of the page, without its ending; ``about``: what the document says, and
    which part of it is on the page; ``modules``: where its sentences stand."""

    name: str
    title: str
    about: str
    modules: tuple[str, ...]
    sections: Sections

    @property
    def page(self) -> Path:
        """Where the generated page lies, from the root of the repository."""
        return PAGES / f"{self.name}.md"

    @property
    def sentences(self) -> tuple[Sentence, ...]:
        """All of them, in order."""
        return tuple(sentence for _, part in self.sections for sentence in part)
