"""Every sentence of the documents has a test, their pages say so, and a marker that helps nobody is found."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.promised.__main__ import LOT, drawn, main, story
from tests.promised.collecting import ROOT, STORES, Holder, marked_files
from tests.promised.documents import BY_KEY, DOCUMENTS, SENTENCES
from tests.promised.page import FOLDER, TESTS_MAX, page, problems
from tests.promised.sentences import Document

KEY = SENTENCES[0].key
RULE = "noeta/testing/contract/waiting.py"


def a_test(name: str = "test_it", file: str = "tests/test_a.py", stores: tuple[str, ...] = ()) -> Holder:
    return Holder(file, name, set(stores), [f"{file}::{name}"])


def every_sentence_held() -> dict[str, list[Holder]]:
    return {key: [a_test()] for key in BY_KEY}


def test_every_sentence_is_held_and_the_pages_are_current() -> None:
    asked = subprocess.run(
        [sys.executable, "-m", "tests.promised", "--check"], cwd=ROOT, capture_output=True, text=True, check=False
    )

    assert asked.returncode == 0, asked.stdout + asked.stderr


def test_keys_are_unique_and_name_their_part() -> None:
    assert len(BY_KEY) == len(SENTENCES)
    for document in DOCUMENTS:
        parts = [{sentence.key.partition("/")[0] for sentence in sentences} for _, sentences in document.sections]
        assert {len(part) for part in parts} == {1}


def test_each_document_has_a_page_of_its_own_and_says_where_its_sentences_stand() -> None:
    assert len({document.page for document in DOCUMENTS}) == len(DOCUMENTS)
    for document in DOCUMENTS:
        written = "".join((ROOT / FOLDER / module).read_text(encoding="utf-8") for module in document.modules)
        assert [sentence.key for sentence in document.sentences if f'"{sentence.key}"' not in written] == []


def test_a_sentence_without_a_test_is_a_problem_unless_it_is_superseded() -> None:
    superseded = next(sentence for sentence in SENTENCES if sentence.superseded)
    held = every_sentence_held()
    assert list(problems(held)) == []

    del held[KEY], held[superseded.key]

    (problem,) = problems(held)
    assert repr(KEY) in problem and SENTENCES[0].words in problem


def test_a_key_that_is_no_sentence_is_a_problem() -> None:
    (problem,) = problems(every_sentence_held() | {"task/of-nobody": [a_test("test_astray")]})

    assert "tests/test_a.py::test_astray names 'task/of-nobody'" in problem


def test_more_tests_than_a_reader_would_look_at_are_a_problem() -> None:
    many = [a_test(f"test_{n}") for n in range(TESTS_MAX + 1)]

    assert list(problems(every_sentence_held() | {KEY: many[:TESTS_MAX]})) == []
    (problem,) = problems(every_sentence_held() | {KEY: many})
    assert f"{TESTS_MAX + 1} tests hold {KEY!r}" in problem


def test_a_rule_of_the_contract_holds_over_every_store_or_it_is_a_problem() -> None:
    assert list(problems(every_sentence_held() | {KEY: [a_test(file=RULE, stores=STORES)]})) == []

    (problem,) = problems(every_sentence_held() | {KEY: [a_test(file=RULE, stores=("memory", "sqlite"))]})

    assert "over memory, sqlite, and not over memory, sqlite, postgres" in problem


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda document: document.name)
def test_a_page_shows_each_sentence_with_its_tests_stores_and_reasons(document: Document) -> None:
    key = document.sentences[0].key
    text = page(document, {key: [a_test(file=RULE, stores=STORES), a_test()]})

    shown = text.replace("\\|", "|")
    assert all(f"{sentence.words}<br>`{sentence.key}`" in shown for sentence in document.sentences)
    assert all(sentence.superseded in shown and sentence.later in shown for sentence in document.sentences)
    assert f"| `{RULE}::test_it` (memory, sqlite, postgres)<br>`tests/test_a.py::test_it` |" in text
    assert text == page(document, {key: [a_test(file=RULE, stores=STORES), a_test()]})


def test_a_lot_of_one_page_is_of_that_page() -> None:
    for document in DOCUMENTS:
        lot = drawn("7", document.sentences)
        assert len(lot) == LOT and set(lot) <= set(document.sentences)


def test_a_lot_is_drawn_by_its_seed_and_names_the_tests() -> None:
    lot = drawn("7")

    assert lot == drawn("7") and lot != drawn("8")
    assert len({sentence.key for sentence in lot}) == LOT
    assert all(not sentence.superseded for sentence in lot)
    assert "held by tests/test_a.py::test_it\n    pytest 'tests/test_a.py::test_it'" in story(
        lot[0], every_sentence_held()
    )


def test_bad_usage_is_64() -> None:
    assert main(["--chekc"]) == 64
    assert main(["--check", "--lot", "1"]) == 64
    assert main(["--page", DOCUMENTS[0].name]) == 64
    assert main(["--lot", "1", "--page", "of-nobody"]) == 64


A_MARKED_FILE = """
import pytest
from noeta.testing.contract.holds import holds

@pytest.mark.holds("one")
@pytest.mark.parametrize("n", [1, 2])
def test_plain(n): pass

@pytest.mark.holds("one")
def helper_that_is_no_test(): pass

class Rules:
    @holds("one", "two")
    def test_rule(self): pass

class TestMemoryStore(Rules): pass
class TestSqliteStore(Rules): pass
"""

AN_UNMARKED_FILE = "raise RuntimeError('nobody has to import this')"


ASK = """
import json, pathlib, sys
from tests.promised.collecting import collect
by_key = collect(pathlib.Path(sys.argv[1]))
told = {key: [[test.place, sorted(test.stores), test.ids] for test in tests] for key, tests in by_key.items()}
print(json.dumps(told))
"""


def ask_below(root: Path) -> subprocess.CompletedProcess[str]:
    """Collect what is marked below this folder, in a process of its own."""
    command = [sys.executable, "-c", ASK, str(root)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def test_only_what_pytest_collects_holds_a_sentence(tmp_path: Path) -> None:
    folder = tmp_path / "tests"
    folder.mkdir()
    (folder / "test_marked.py").write_text(A_MARKED_FILE, encoding="utf-8")
    (folder / "test_unmarked.py").write_text(AN_UNMARKED_FILE, encoding="utf-8")
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers =\n    holds(key): it\n", encoding="utf-8")

    asked = ask_below(tmp_path)

    assert asked.returncode == 0, asked.stderr
    file = "tests/test_marked.py"
    classes = ("TestMemoryStore", "TestSqliteStore")
    rule = [f"{file}::test_rule", ["memory", "sqlite"], [f"{file}::{name}::test_rule" for name in classes]]
    plain = [f"{file}::test_plain", [], [f"{file}::test_plain[{n}]" for n in (1, 2)]]
    assert json.loads(asked.stdout) == {"one": [plain, rule], "two": [rule]}


def test_a_file_that_cannot_be_collected_is_said_and_not_left_out(tmp_path: Path) -> None:
    (tmp_path / "tests").mkdir()
    broken = tmp_path / "tests" / "test_broken.py"
    broken.write_text("import pytest\n@pytest.mark.holds('one')\ndef test_it(: pass\n", encoding="utf-8")
    assert marked_files(tmp_path) == [broken]

    asked = ask_below(tmp_path)

    assert "NotCollected" in asked.stderr and "test_broken.py" in asked.stderr


def test_superseded_and_not_yet_are_two_things() -> None:
    """The first is a decision, the second a debt."""
    assert [sentence.key for sentence in SENTENCES if sentence.superseded and sentence.later] == []
