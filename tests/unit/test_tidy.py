"""The house rules that a machine can check; each ban says what to use instead.

After TigerBeetle's tidy.zig. Every rule stands here with an example it must find and one it must not,
because a rule that finds nothing looks like a tidy tree.
"""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

# The thread world is where real time, randomness and threads come in; signals exist only in a real process, and what
# reads their pipe must be a real thread. Nowhere else in what a worker runs.
WORLD_SEAM = ("noeta/runtime/threads.py", "noeta/runtime/signals.py")
SQL_ALLOWED = ("noeta/testing/postgres/", "noeta/chaos/")
TEXT_BYTES_MAX = 2_000_000
PYTHON_OLDEST = (3, 11)

NONDETERMINISTIC_MODULES = frozenset(
    {"_thread", "asyncio", "concurrent", "multiprocessing", "queue", "random", "secrets", "threading", "time"}
)
NONDETERMINISTIC_CALLS = frozenset(
    {
        "date.today",
        "datetime.now",
        "datetime.today",
        "datetime.utcnow",
        "os.urandom",
        "uuid.uuid1",
        "uuid.uuid4",
    }
)
MUTABLE_MAKERS = frozenset({"list", "dict", "set", "bytearray", "defaultdict", "deque", "OrderedDict", "Counter"})
UNNAMED = frozenset({"utils.py", "util.py", "helpers.py", "common.py", "misc.py"})
SQL = re.compile(r"\s*(?:SELECT|INSERT|UPDATE|DELETE|CREATE|DROP|ALTER)\s+\S")

# Put together here, so that this file does not find itself.
MACHINE_PATH = re.compile(r"(?<![\w.~}*)-])/(?:" + r"home/\w[\w.-]*|Users/\w[\w.-]*|wo" + r"rk|ro" + r"ot)/")
REGISTRIES = (
    ("pypi", "org"),
    ("pythonhosted", "org"),
    ("npmjs", "(?:org|com)"),
    ("crates", "io"),
    ("golang", "org"),
    ("docker", "io"),
    ("ghcr", "io"),
    ("quay", "io"),
    ("rubygems", "org"),
    ("anaconda", "org"),
)
REGISTRY_HOST = re.compile(r"(?i)\b(?:" + "|".join(rf"{name}\.{end}" for name, end in REGISTRIES) + r")\b")


@dataclass(frozen=True, slots=True)
class Finding:
    path: str
    line: int
    what: str
    instead: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.what}; instead: {self.instead}"


def is_worker_code(path: str) -> bool:
    return path.startswith(("noeta/core/", "noeta/runtime/")) and path not in WORLD_SEAM


def is_library(path: str) -> bool:
    return path.startswith(("noeta/core/", "noeta/backends/", "noeta/runtime/"))


def dotted(node: ast.expr) -> str:
    """`a.b.c` for an attribute chain, empty for anything else."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        before = dotted(node.value)
        return f"{before}.{node.attr}" if before else ""
    return ""


# Rules on Python files: (path, tree) -> findings.


def nondeterminism(path: str, tree: ast.Module) -> Iterator[Finding]:
    if not is_worker_code(path):
        return
    instead = "take it from the World (wall, monotonic, event, spawn, random); see noeta/core/world.py"
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for name in node.names:
                if name.name.split(".")[0] in NONDETERMINISTIC_MODULES:
                    yield Finding(path, node.lineno, f"imports {name.name}", instead)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module is not None:
            names = {name.name for name in node.names}
            # The World hands out generators; their type has to be named somewhere.
            is_type_only = node.module == "random" and names == {"Random"}
            if node.module.split(".")[0] in NONDETERMINISTIC_MODULES and not is_type_only:
                yield Finding(path, node.lineno, f"imports {', '.join(sorted(names))} from {node.module}", instead)
            for called in sorted(f"{node.module}.{name}" for name in names):
                if called in NONDETERMINISTIC_CALLS:
                    yield Finding(path, node.lineno, f"imports {called}", instead)
        elif isinstance(node, ast.Call):
            name_of_call = dotted(node.func)
            if ".".join(name_of_call.split(".")[-2:]) in NONDETERMINISTIC_CALLS:
                yield Finding(path, node.lineno, f"calls {name_of_call}", instead)
            elif name_of_call == "Random" and not node.args:
                yield Finding(path, node.lineno, "makes a Random without a seed", "world.random(name)")


def sql_in_python(path: str, tree: ast.Module) -> Iterator[Finding]:
    if not path.startswith("noeta/") or path.startswith(SQL_ALLOWED):
        return
    texts = docstrings(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in texts:
            if SQL.match(node.value):
                instead = "a named statement in noeta/backends/stores/sql/<store>/*.sql"
                yield Finding(path, node.lineno, f"SQL in Python: {node.value.strip()[:40]!r}", instead)


def docstrings(tree: ast.Module) -> set[int]:
    """Ids of the nodes that are docstrings, or strings that stand alone."""
    return {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}


def bare_except(path: str, tree: ast.Module) -> Iterator[Finding]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ExceptHandler) and node.type is None:
            yield Finding(path, node.lineno, "bare except", "the error you can handle, by name; let the rest stop us")


def printing(path: str, tree: ast.Module) -> Iterator[Finding]:
    if not is_library(path):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and dotted(node.func) == "print":
            yield Finding(path, node.lineno, "print in a library", "return it, record it, or logging.getLogger")


def module_state(path: str, tree: ast.Module) -> Iterator[Finding]:
    if not is_worker_code(path):
        return
    instead = "keep it on the Process object, or name a constant in UPPER_CASE"
    for node in tree.body:
        for name, value in assignments(node):
            is_constant = name == "__all__" or (name.isupper() and bool(name.strip("_")))
            if is_mutable(value) and not is_constant:
                yield Finding(path, node.lineno, f"mutable module state: {name}", instead)
    for inner in ast.walk(tree):
        if isinstance(inner, ast.Global):
            yield Finding(path, inner.lineno, "global statement", "keep it on the Process object")


def assignments(node: ast.stmt) -> Iterator[tuple[str, ast.expr]]:
    if isinstance(node, ast.Assign):
        for target in node.targets:
            yield dotted(target), node.value
    elif isinstance(node, ast.AnnAssign) and node.value is not None:
        yield dotted(node.target), node.value


def is_mutable(value: ast.expr) -> bool:
    if isinstance(value, ast.Call):
        return dotted(value.func).split(".")[-1] in MUTABLE_MAKERS
    return isinstance(value, ast.List | ast.Dict | ast.Set | ast.ListComp | ast.DictComp | ast.SetComp)


TREE_RULES: tuple[Callable[[str, ast.Module], Iterator[Finding]], ...] = (
    nondeterminism,
    sql_in_python,
    bare_except,
    printing,
    module_state,
)

# Rules on any file: (path, text) -> findings.


def unnamed_idea(path: str, text: str) -> Iterator[Finding]:
    if path.rpartition("/")[2] in UNNAMED:
        yield Finding(path, 1, "a file without an idea", "name the idea (retry.py, ids.py), or put it where it is used")


def machine_path(path: str, text: str) -> Iterator[Finding]:
    for number, line in enumerate(text.splitlines(), start=1):
        if found := MACHINE_PATH.search(line):
            yield Finding(path, number, f"a path of one machine: {found.group()}", "a path below the checkout")


def registry_host(path: str, text: str) -> Iterator[Finding]:
    for number, line in enumerate(text.splitlines(), start=1):
        if found := REGISTRY_HOST.search(line):
            yield Finding(path, number, f"a registry's host: {found.group()}", "the package's name; pip knows where")


TEXT_RULES: tuple[Callable[[str, str], Iterator[Finding]], ...] = (unnamed_idea, machine_path, registry_host)


def findings(path: str, text: str) -> Iterator[Finding]:
    for text_rule in TEXT_RULES:
        yield from text_rule(path, text)
    if path.endswith(".py"):
        try:
            tree = ast.parse(text, filename=path, feature_version=PYTHON_OLDEST)
        except SyntaxError as error:
            yield Finding(path, error.lineno or 1, f"does not parse: {error.msg}", "what Python 3.11 understands")
            return
        for tree_rule in TREE_RULES:
            yield from tree_rule(path, tree)


def project_files() -> list[Path]:
    """What git tracks or would track; where this is no checkout, all that is not hidden."""
    asked = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if asked.returncode == 0:
        return [ROOT / name for name in asked.stdout.split("\0") if name and (ROOT / name).is_file()]
    hidden_or_made = re.compile(r"(?:^|/)(?:\.[^/]*|__pycache__|runs|build|dist)(?:/|$)")
    return [
        path
        for path in ROOT.rglob("*")
        if path.is_file() and not hidden_or_made.search(path.relative_to(ROOT).as_posix())
    ]


def test_the_tree_is_tidy() -> None:
    found: list[str] = []
    seen = 0
    for path in project_files():
        content = path.read_bytes()
        if b"\0" in content or len(content) > TEXT_BYTES_MAX:
            continue
        seen += 1
        name = path.relative_to(ROOT).as_posix()
        found.extend(str(finding) for finding in findings(name, content.decode(errors="replace")))

    assert seen > 10, "the rules saw next to nothing"
    assert not found, "\n" + "\n".join(found)


CORE = "noeta/core/part.py"


@pytest.mark.parametrize(
    ("path", "text", "what"),
    [
        (CORE, "import time", "imports time"),
        (CORE, "def f():\n    from threading import Lock", "imports Lock from threading"),
        ("noeta/runtime/worker.py", "import concurrent.futures", "imports concurrent.futures"),
        (CORE, "from random import Random, choice", "from random"),
        (CORE, "import datetime\nx = datetime.datetime.now()", "calls datetime.datetime.now"),
        (CORE, "import uuid\nx = uuid.uuid4()", "calls uuid.uuid4"),
        (CORE, "from uuid import uuid4", "imports uuid.uuid4"),
        (CORE, "from random import Random\nx = Random()", "without a seed"),
        ("noeta/backends/stores/postgres.py", 'q = "SELECT 1"', "SQL in Python"),
        ("noeta/cli.py", 'q = f"DELETE FROM {t}"', "SQL in Python"),
        ("noeta/cli.py", 'q = """\n    UPDATE task SET x = 1"""', "SQL in Python"),
        ("bench/load.py", "try:\n    f()\nexcept:\n    pass", "bare except"),
        ("noeta/backends/stores/memory.py", "print(1)", "print in a library"),
        (CORE, "cache = {}", "mutable module state: cache"),
        (CORE, "_seen: set[int] = set()", "mutable module state: _seen"),
        (CORE, "n = 0\ndef f():\n    global n\n    n = 1", "global statement"),
        ("tests/unit/test_a.py", "def f[T](x: T) -> T: ...", "does not parse"),
        ("noeta/chaos/utils.py", "", "a file without an idea"),
        ("README.md", "cd /" + "home/ada/noeta", "a path of one machine"),
        ("Makefile", "\tcd /" + "work/main", "a path of one machine"),
        ("docs/a.md", "see https://" + "pypi" + ".org/project/noeta", "a registry's host"),
    ],
)
def test_rule_finds_what_it_bans(path: str, text: str, what: str) -> None:
    found = list(findings(path, text))

    assert len(found) == 1, found
    assert what in found[0].what
    assert found[0].instead


@pytest.mark.parametrize(
    ("path", "text"),
    [
        (WORLD_SEAM[0], "import random, threading, time"),
        (CORE, "from random import Random\ndef draw(r: Random) -> float:\n    return r.random()"),
        (CORE, "from noeta.core.time import x"),
        ("noeta/backends/stores/postgres.py", '"""SELECT is what a reader does."""\nx = "Select a task"'),
        ("noeta/testing/postgres/schemas.py", 'q = "SELECT 1"'),
        ("tests/unit/test_sql.py", 'q = "SELECT 1"\nprint(q)\ncache = {}'),
        (CORE, "__all__ = ['a']\nNAMES = {'a': 1}\n_TABLE = dict(a=1)\npair = (1, 2)"),
        (CORE, "def f():\n    seen = {}\n    return seen"),
        ("noeta/cli.py", "print(1)"),
        ("README.md", "runs/latest/work/x, https://example.org/" + "work/x, ~/" + "work/x, a pypi package"),
    ],
)
def test_rule_leaves_alone_what_is_allowed(path: str, text: str) -> None:
    assert list(findings(path, text)) == []
