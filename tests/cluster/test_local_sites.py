"""Stores in files of this machine: whose place is taken is refused, and what a run leaves of one is what was asked."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from noeta.chaos.evidence_dir import RUN, RunDir, create_run_dir
from noeta.chaos.reaper import Reapers
from noeta.chaos.sites import Opening, Site, choose_site, local, names_a_place
from noeta.core.errors import BadInput
from noeta.core.store import NewTask

OWN = "factory:tests.cluster.own_store:make"


def opened(site: Site, run_dir: RunDir, *, keep: bool = False) -> tuple[str, list[str]]:
    """The address at which there was a store, and what was told."""
    told: list[str] = []
    with Reapers() as reapers, site.open(Opening(run_dir, reapers, keep, told.append)) as ground:
        store = ground.open(1)
        store.create(NewTask("t", "agent", "goal"))
        store.close()
        with ground.view("test") as view:
            assert [one.sample.task for one in view.rows()[0]] == ["t"]
        assert (ground.server, ground.schema) == (None, None)
        return ground.address, told


def site_of(store: str) -> Site:
    return choose_site(store, None, os.environ)


def store_facts(run_dir: RunDir) -> dict[str, Any]:
    facts: dict[str, Any] = run_dir.read_json(RUN)["store"]
    return facts


@pytest.mark.parametrize(("store", "left"), [("sqlite:", "store/noeta.db"), (OWN, "store/mine.db")])
def test_a_store_whose_place_was_not_named_stays_in_the_run_directory(tmp_path: Path, store: str, left: str) -> None:
    run_dir = create_run_dir(tmp_path, "1")
    address, _ = opened(site_of(store), run_dir)

    assert address.startswith(store)
    assert run_dir.path(left).stat().st_size > 0
    facts = store_facts(run_dir)
    assert left.startswith(facts["file"])
    assert facts["kept"] and facts["bytes"] >= run_dir.path(left).stat().st_size


@pytest.mark.parametrize("store", ["sqlite:", OWN])
def test_one_that_is_too_big_does_not(tmp_path: Path, store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "EVIDENCE_BYTES_MAX", 10)
    run_dir = create_run_dir(tmp_path, "1")
    _, told = opened(site_of(store), run_dir)

    assert [path for path in run_dir.root.rglob("*.db*") if path.is_file()] == []
    assert "not kept as evidence" in told[0]
    assert store_facts(run_dir)["kept"] is False


@pytest.mark.parametrize("keep", [False, True])
@pytest.mark.parametrize(("store", "name"), [("sqlite:", "mine.db"), (f"{OWN}:", "place")])
def test_one_whose_place_was_named_stays_only_if_it_is_to_be_kept(
    tmp_path: Path, store: str, name: str, keep: bool
) -> None:
    folder = tmp_path / "mine"
    address, told = opened(site_of(f"{store}{folder / name}"), create_run_dir(tmp_path / "runs", "1"), keep=keep)

    assert address == f"{store}{folder / name}"
    assert (folder / name).exists() == keep
    assert [f"kept: {folder / name}"] * keep == told
    if not keep:
        assert list(folder.iterdir()) == []


@pytest.mark.parametrize(("store", "name"), [("sqlite:", "mine.db"), (f"{OWN}:", "place")])
def test_behind_a_link_is_the_place_that_is_tidied(tmp_path: Path, store: str, name: str) -> None:
    """SQLite's other files lie beside what the link leads to."""
    folder = tmp_path / "really"
    folder.mkdir()
    (tmp_path / "link").symlink_to(folder / name)
    address, _ = opened(site_of(f"{store}{tmp_path / 'link'}"), create_run_dir(tmp_path / "runs", "1"))

    assert address == f"{store}{folder / name}"
    assert list(folder.iterdir()) == []


def test_what_lies_behind_a_link_is_somebody_elses(tmp_path: Path) -> None:
    (tmp_path / "really").mkdir()
    (tmp_path / "really" / "mine.db-wal").write_text("mine")
    (tmp_path / "link.db").symlink_to(tmp_path / "really" / "mine.db")

    with pytest.raises(BadInput, match=r"mine\.db-wal"):
        site_of(f"sqlite:{tmp_path / 'link.db'}")


def test_a_place_that_is_taken_is_refused_by_name_and_left_alone(tmp_path: Path) -> None:
    for name in ("full.db", "half.db-wal"):
        (tmp_path / name).write_text("mine")
    (tmp_path / "empty.db").touch()
    (tmp_path / "bare").mkdir()

    for store in ("sqlite:full.db", "sqlite:half.db", "sqlite:bare", f"{OWN}:.", f"{OWN}:full.db"):
        kind, _, place = store.rpartition(":")
        with pytest.raises(BadInput, match=r"--store.*found .*" + ("" if place == "." else place)):
            site_of(f"{kind}:{tmp_path / place}")
    site_of(f"sqlite:{tmp_path / 'empty.db'}")
    site_of(f"{OWN}:{tmp_path / 'bare'}")
    assert (tmp_path / "full.db").read_text() == "mine"


@pytest.mark.parametrize(
    ("store", "words"),
    [
        ("mysql://u:secret@h/d", "found mysql:…"),
        ("somewhere", "found something else"),
        ("sqlite", "found something else"),
        ("sqlite://host/file.db", "found sqlite:…"),
        ("factory:tests.cluster.own_store", "found factory:…"),
        ("factory:tests.cluster.nowhere:make", "cannot import 'tests.cluster.nowhere'"),
        ("factory:tests.cluster.own_store:nothing", "has no function 'nothing'"),
    ],
)
def test_what_names_no_store_is_refused(store: str, words: str) -> None:
    with pytest.raises(BadInput) as refused:
        site_of(store)

    assert words in str(refused.value)
    assert "secret" not in str(refused.value)


def test_which_stores_name_a_place() -> None:
    named = {store: names_a_place(store) for store in ("sqlite:", "sqlite:x", OWN, f"{OWN}:x", "postgresql://h/d")}

    assert named == {"sqlite:": False, "sqlite:x": True, OWN: False, f"{OWN}:x": True, "postgresql://h/d": False}
