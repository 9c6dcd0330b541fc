"""The page of promises is generated, complete and stable."""

from __future__ import annotations

from pathlib import Path

import pytest

from invariants import LAWS, PROMISES, SERVER_LAWS, promises
from invariants.promises import page, places


def test_every_law_is_a_promise_and_every_promise_has_a_law() -> None:
    keys = [promise.key for promise in PROMISES]

    assert len(keys) == len(set(keys))
    assert [promise.law.key for promise in PROMISES] == keys
    assert {law.key for law in LAWS} == set(keys)


def test_a_run_without_a_server_is_spared_the_laws_that_need_one() -> None:
    assert {law.key for law in LAWS} > SERVER_LAWS


def test_every_law_stands_in_the_file_of_its_key() -> None:
    for law in LAWS:
        path = promises.ROOT / "invariants" / "laws" / f"{law.key.replace('-', '_')}.py"

        assert f'key="{law.key}"' in path.read_text(encoding="utf-8")


def test_page_names_every_key_law_and_code() -> None:
    text = page()

    assert all(f"## {promise.key}\n" in text for promise in PROMISES)
    assert all(f"| `{code}` |" in text for law in LAWS for code in law.codes)


def test_page_is_the_same_for_the_same_files(tmp_path: Path) -> None:
    for name in (
        "noeta/b.py",
        "noeta/a.sql",
        "tests/test_c.py",
        "tests/unit/invariants/d.py",
        "noeta/e.txt",
        "noeta/testing/f.py",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("-- Keeps: one-writer\n", encoding="utf-8")

    text = page(tmp_path)

    assert text == page(tmp_path)
    assert "- Kept in: `noeta/a.sql`, `noeta/b.py`\n- Held by: `noeta/testing/f.py`, `tests/test_c.py`" in text


@pytest.mark.parametrize(
    ("key", "line", "stands"),
    [
        ("one-writer", "Keeps: one-writer, gapless-log.", True),
        ("one-writer", "no two-one-writers here", False),
        ("one-writer", "test_one_writer", False),
        ("bounded", "a bounded loop", False),
        ("bounded", "Keeps: effect-at-most-once, bounded.", True),
        ("bounded", "Keeps: unbounded", False),
        ("bounded", 'law = "bounded"', True),
    ],
)
def test_key_stands_where_it_is_named_and_not_where_prose_uses_its_word(key: str, line: str, stands: bool) -> None:
    assert bool(places(key, {"file": line})) is stands


def test_check_tells_a_stale_page_from_a_fresh_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for folder in ("noeta", "tests"):
        (tmp_path / folder).mkdir()
    monkeypatch.setattr(promises, "ROOT", tmp_path)
    monkeypatch.setattr(promises, "page", lambda: page(tmp_path))

    missing = promises.main(["--check"])
    written = promises.main(["--write"])
    fresh = promises.main(["--check"])
    (tmp_path / "noeta" / "new.py").write_text('"""Keeps: one-writer."""\n', encoding="utf-8")
    stale = promises.main(["--check"])

    assert (missing, written, fresh, stale) == (1, 0, 0, 1)
    assert "run `make docs`" in capsys.readouterr().err


def test_bad_usage_is_64() -> None:
    assert promises.main(["--chekc"]) == 64
