"""The contract suite on a candidate: pytest in this process, a line of the card for each subject."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from invariants import Verdict
from noeta.chaos.certify.asked import Order
from noeta.chaos.certify.candidate import CandidateFactory, Places, load
from noeta.chaos.certify.card import Line

TITLES: Final = {
    "birth": "how tasks are born",
    "fence": "what an append may do, and what stops it",
    "claims": "how tasks are taken and taken over",
    "leases": "how a lease is kept and given back",
    "kept": "how a task goes on whose claim was kept",
    "inbox": "posts, wakes and their keys",
    "waiting": "no wake is lost, none wakes twice",
    "races": "several threads at once, one law",
    "timers": "never early, never twice",
    "timeouts": "waits with a time limit",
    "sweeps": "what the sweep puts back, and when",
    "endings": "how tasks end, and how failures are bounded",
    "cancel": "a cancel at every edge of a task's life",
    "family": "children are born, and heard of, once",
    "results": "how long a child's result may be",
    "background": "children that belong to the root",
    "orders": "what children hear when a task ends",
    "closing": "ends that meet, at once",
    "contents": "contents and snapshots",
    "reads": "pages, filters, one instant",
    "transitions": "every line of the table of transitions",
    "bad_input": "the same refusals, before any effect",
}
SUITE: Final = Path(__file__).with_name("suite.py")
KEYS: Final = re.compile(r"Keeps: ([a-z-]+(?:, [a-z-]+)*)")
DETAIL_LINES_MAX: Final = 40


@dataclass(slots=True)
class Failure:
    """The first test of a subject that failed; one that keeps a promise before one that does not say which."""

    test: str
    keeps: str
    message: str
    story: str

    def why(self, more: int) -> str:
        """In one line."""
        kept = f" (keeps: {self.keeps})" if self.keeps else ""
        return f"{self.test}{kept}: {self.message}" + (f"; and {more} more" if more else "")


class Examiner:
    """A plugin of pytest: hands the candidate to the suite and takes down what became of each test."""

    def __init__(self, order: Order, factory: CandidateFactory) -> None:
        self._order = order
        self._factory = factory
        self.passed: Counter[str] = Counter()
        self.failed: Counter[str] = Counter()
        self.first: dict[str, Failure] = {}
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self._keeps: dict[str, str] = {}

    @pytest.fixture(scope="session")
    def candidate(self) -> CandidateFactory:
        return self._factory

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = [item for item in items if self._order.wants(_subject(item.nodeid, item))]
        for item in items:
            function = item.function if isinstance(item, pytest.Function) else None
            found = KEYS.search(function.__doc__ or "") if function is not None else None
            self._keeps[item.nodeid] = found.group(1) if found else ""

    def pytest_itemcollected(self, item: pytest.Item) -> None:
        item.user_properties.append(("subject", _subject(item.nodeid, item)))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        subject = str(dict(report.user_properties)["subject"])
        self.seconds[subject] += report.duration
        if report.failed:
            self.failed[subject] += 1
            keeps, known = self._keeps[report.nodeid], self.first.get(subject)
            if known is None or (keeps and not known.keeps):
                name = report.nodeid.rpartition("::")[2]
                self.first[subject] = Failure(name, keeps, _message(report), _story(report))
        elif report.when == "call" and report.passed:
            self.passed[subject] += 1


def run_contract(order: Order) -> Iterator[Line]:
    """A line for each subject, all of them when the suite has ended."""
    pytest.register_assert_rewrite("noeta.testing.contract")  # before it is imported, or an assert says nothing
    candidate = load(order.store)
    factory = CandidateFactory(candidate, Places(candidate, Path(order.root)))
    examiner = Examiner(order, factory)
    options = [
        "-q",
        "--no-header",
        "-c",
        "/dev/null",
        "--rootdir",
        order.root,
        "-p",
        "no:cacheprovider",
        "-W",
        "default",
    ]
    pytest.main([*options, "--import-mode=importlib", str(SUITE)], plugins=[examiner])
    factory.close()
    for subject, title in TITLES.items():
        if order.wants(subject):
            yield _line(subject, title, examiner)


def _line(subject: str, title: str, examiner: Examiner) -> Line:
    passed, failed = examiner.passed[subject], examiner.failed[subject]
    verdict = Verdict.INVALID if failed else Verdict.VALID if passed else Verdict.UNKNOWN
    first = examiner.first.get(subject)
    why = first.why(failed - 1) if first else "" if passed else "no test ran"
    story = first.story if first else ""
    return Line("contract", subject, title, verdict, passed + failed, examiner.seconds[subject], why, story)


def _subject(nodeid: str, item: pytest.Item) -> str:
    """The file of the contract in which a test stands."""
    assert isinstance(item, pytest.Function), nodeid
    return str(item.function.__module__).rpartition(".")[2]


def _message(report: pytest.TestReport) -> str:
    crash = getattr(report.longrepr, "reprcrash", None)
    text = str(report.longrepr) if crash is None else str(crash.message)
    return text.strip().splitlines()[0]


def _story(report: pytest.TestReport) -> str:
    return "\n".join(report.longreprtext.splitlines()[-DETAIL_LINES_MAX:])
