"""The score card: a line a rule, and the one verdict of all of them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from xml.etree import ElementTree

import msgspec

from invariants import Verdict, merge

NOT_COVERED: Final = "not covered"
"""Of a line that cannot be asked of this store: it says nothing, for or against."""

NAME_WIDTH: Final = 27
TITLE_WIDTH: Final = 66
NAMES: Final[Mapping[str, str]] = {"valid": "ok", "invalid": "FAILED", "unknown": "unknown", NOT_COVERED: NOT_COVERED}


class Line(msgspec.Struct, frozen=True):
    """What became of one rule. ``checks``: how many answers were judged; ``why``: of a line that is not valid, in one
    line, with the key of the promise; ``detail``: the story, where there is one; ``rerun``: the command."""

    part: str
    subject: str
    title: str
    verdict: str
    checks: int = 0
    seconds: float = 0.0
    why: str = ""
    detail: str = ""
    rerun: str = ""

    def text(self, *, story: bool = False) -> str:
        """For the terminal: a failed line with its reason and its command below it, and its story if that is told."""
        name = f"{self.part}:{self.subject}"
        first = f"{name:<{NAME_WIDTH}} {self.title:<{TITLE_WIDTH}} {NAMES[self.verdict]:<11}"
        if self.checks:
            first += f" {self.checks:>6} {self.seconds:>7.1f} s"
        if self.verdict == Verdict.VALID:
            return first
        lines = [first.rstrip()]
        lines += [f"    {line}" for line in self.why.splitlines()]
        if story and self.verdict == Verdict.INVALID and self.detail:
            lines += ["", *(f"    {line}".rstrip() for line in self.detail.splitlines()), ""]
        if self.verdict != NOT_COVERED and self.rerun:
            lines.append(f"    rerun: {self.rerun}")
        return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class Card:
    """All lines of a certification. ``command`` repeats it; ``failed``: the harness itself failed somewhere."""

    store: str
    version: str
    seed: int
    command: str
    lines: Sequence[Line]
    seconds: float
    failed: bool = False
    about: str = ""

    @property
    def verdict(self) -> Verdict:
        """The worst of all lines that were covered."""
        return merge(Verdict(line.verdict) for line in self.lines if line.verdict != NOT_COVERED)

    @property
    def exit_code(self) -> int:
        """The verdict's; 3 if the harness failed and nothing worse was found in spite of it."""
        return 3 if self.failed and self.verdict is not Verdict.INVALID else self.verdict.exit_code

    @property
    def checks(self) -> int:
        """Answers that were judged."""
        return sum(line.checks for line in self.lines)

    def last_line(self) -> str:
        """What the last line of the output says."""
        judged = [line for line in self.lines if line.verdict != NOT_COVERED]
        left = len(self.lines) - len(judged)
        return (
            f"store={self.store} noeta={self.version} seed={self.seed} verdict={self.verdict.value}{self.about} "
            f"lines={len(judged)}{f' not-covered={left}' if left else ''} checks={self.checks} "
            f"seconds={self.seconds:.1f} reproduce: {self.command}"
        )

    def as_json(self) -> str:
        """The whole card."""
        whole: dict[str, Any] = {
            "store": self.store,
            "noeta": self.version,
            "seed": self.seed,
            "verdict": self.verdict.value,
            "exit_code": self.exit_code,
            "checks": self.checks,
            "seconds": round(self.seconds, 3),
            "reproduce": self.command,
            "lines": [msgspec.to_builtins(line) for line in self.lines],
        }
        return json.dumps(whole, indent=1) + "\n"

    def as_junit(self) -> str:
        """The same for a build server: a suite a part, a case a line."""
        suites = ElementTree.Element("testsuites", name=f"noeta certify {self.store}")
        for part in dict.fromkeys(line.part for line in self.lines):
            of_part = [line for line in self.lines if line.part == part]
            suite = ElementTree.SubElement(suites, "testsuite", {"name": part, **_counts(of_part)})
            for line in of_part:
                name = f"{line.subject}: {line.title}"
                about = {"name": name, "classname": f"{self.store}.{part}", "time": f"{line.seconds:.3f}"}
                case = ElementTree.SubElement(suite, "testcase", about)
                kind = {"invalid": "failure", "unknown": "error", NOT_COVERED: "skipped"}.get(line.verdict)
                if kind is not None:
                    ElementTree.SubElement(case, kind, message=line.why).text = f"{line.detail}\nrerun: {line.rerun}"
        ElementTree.indent(suites)
        return ElementTree.tostring(suites, encoding="unicode", xml_declaration=True) + "\n"


def _counts(lines: Iterable[Line]) -> dict[str, str]:
    verdicts = [line.verdict for line in lines]
    return {
        "tests": str(len(verdicts)),
        "failures": str(verdicts.count("invalid")),
        "errors": str(verdicts.count("unknown")),
        "skipped": str(verdicts.count(NOT_COVERED)),
    }
