"""Evidence from a live Postgres store, for an operator: logs, rows and inboxes, read-only, in pages.

Nobody recorded attempts, journals or scripts there, so only the laws that need none of them can judge
(`LIVE_LAWS`). Log and row of a task are read in one short read-only transaction, so that they agree although the
task goes on; nothing is locked. What a law must know of the task's family is asked after that, so that it may be newer
than the task, and never older.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import psycopg
from psycopg import sql

from invariants import LAWS_BY_KEY, FinalRow, Kin, Law, LogEntry, RunFacts, TaskEvidence
from invariants.kinship import ORDER_KEY, Reports, kin_from
from noeta.chaos.evidence_reader import waiting_kinds
from noeta.core import codec
from noeta.core.ids import sha256_text
from noeta.core.store import UnreadItem
from noeta.core.task import Status, TaskRow

LIVE_LAWS: Final[tuple[Law, ...]] = tuple(
    LAWS_BY_KEY[key]
    for key in (
        "one-writer",
        "epochs-rise",
        "gapless-log",
        "terminal-is-final",
        "row-agrees",
        "taken-once",
        "wake-once",
        "calls-pair",
        "same-request",
        "children-once",
        "timers-once",
        "jobs-told-once",
        "bounded",
        "never-stuck",
        "waiting-is-free",
    )
    if key in LAWS_BY_KEY
)
"""The laws that need only logs and rows."""

PAGE_ROWS: Final = 500
KIN_ROWS: Final = 50
"""Each of these brings two bodies, which can be long."""
STATEMENT_SECONDS_MAX: Final = 30

_IDS: Final = "SELECT t.id FROM {schema}.task t WHERE t.id > %s ORDER BY t.id LIMIT %s"
_ROW: Final = """
SELECT t.id, t.queue, t.status, t.kept, t.epoch, t.worker, t.token, t.lease_until, t.ready_at, t.wake_on::text,
    t.wake_key, t.wake_missing, t.inbox_seq, t.last_seq, t.takeovers, t.fail_attempts, t.parent, t.group_id,
    t.created_at, (SELECT {schema}.clock())
FROM {schema}.task t WHERE t.id = %s
"""
_LOG: Final = """
SELECT e.seq, e.epoch, e.at, e.body::text FROM {schema}.entry e WHERE e.task_id = %s AND e.seq > %s
ORDER BY e.seq LIMIT %s
"""
_ITEMS: Final = """
SELECT i.number, i.key, CASE WHEN i.unread_seq IS NULL THEN i.body::text END, i.at, i.unread_seq FROM {schema}.item i
WHERE i.task_id = %s AND (i.taken_seq IS NULL OR i.unread_seq IS NOT NULL) AND i.number > %s ORDER BY i.number LIMIT %s
"""
_KIN: Final = """
SELECT t.id, t.status, t.group_id, t.parent,
    (SELECT e.at FROM {schema}.entry e WHERE e.task_id = t.id AND e.seq = 1),
    (SELECT e.body::text FROM {schema}.entry e WHERE e.task_id = t.id AND e.seq = 1),
    (SELECT e.at FROM {schema}.entry e WHERE e.task_id = t.id AND e.seq = t.last_seq AND t.status = 'terminal'),
    (SELECT e.body::text FROM {schema}.entry e
     WHERE e.task_id = t.id AND e.seq = t.last_seq AND t.status = 'terminal')
FROM {schema}.task t WHERE
"""
_ONE: Final = _KIN + "t.id = %s"
_BELOW: Final = _KIN + "t.id > %s AND t.id < %s ORDER BY t.id LIMIT %s"
_COUNT: Final = "SELECT count(*) FROM {schema}.task t WHERE t.parent IS NOT NULL"


class LiveEvidence:
    """Implements ``invariants.Evidence``; usable with ``with``. For one thread."""

    def __init__(self, dsn: str, schema: str) -> None:
        """
        Raises:
            psycopg.Error: the server does not answer.
        """
        self._schema = sql.Identifier(schema)
        given = psycopg.conninfo.conninfo_to_dict(dsn)
        options = (
            f"{given.get('options') or ''} -c default_transaction_read_only=on -c statement_timeout="
            f"{STATEMENT_SECONDS_MAX}s -c client_encoding=UTF8"
        )
        self._session: psycopg.Connection[Any] = psycopg.connect(
            dsn, options=options.strip(), autocommit=True, application_name="noeta check", connect_timeout=5
        )
        self._session.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        self._kin = _LiveKin(self)
        self.run = LiveFacts(self, self._kin)

    def __enter__(self) -> LiveEvidence:
        return self

    def __exit__(self, *error: object) -> None:
        self._session.close()

    def check_schema(self) -> None:
        """Raises: psycopg.errors.UndefinedTable: there is no store in this schema."""
        self.ask("SELECT version FROM {schema}.migration", [])

    def tasks(self) -> Iterator[TaskEvidence]:
        """Every task, in id order."""
        after = ""
        while page := self.ask(_IDS, [after, PAGE_ROWS]):
            for (task,) in page:
                evidence = self._task(task)
                self._kin.forget()
                if evidence is not None:
                    yield evidence
            after = page[-1][0]

    def ask(self, statement: str, values: list[Any]) -> list[Any]:
        """The rows of one statement."""
        return self._session.execute(sql.SQL(statement).format(schema=self._schema), values).fetchall()

    def log(self, task: str) -> Iterator[LogEntry]:
        """The log of a task, in pages."""
        after = 0
        while page := self.ask(_LOG, [task, after, PAGE_ROWS]):
            for after, epoch, at, body in page:
                yield LogEntry(task, after, epoch, at, codec.decode_event(body), sha256_text(body))

    def _task(self, task: str) -> TaskEvidence | None:
        with self._session.transaction():
            rows = self.ask(_ROW, [task])
            if not rows:
                return None  # purged meanwhile
            log = tuple(self.log(task))
            items: list[Any] = []
            while page := self.ask(_ITEMS, [task, items[-1][0] if items else 0, PAGE_ROWS]):
                items += page
        unread = tuple(
            UnreadItem(number, key, codec.decode_item(body), body, at)
            for number, key, body, at, unread_seq in items
            if unread_seq is None
        )
        stamps = [(number, key) for number, key, _, _, unread_seq in items if unread_seq is not None]
        final = FinalRow(
            rows[0][19],
            _row(rows[0]),
            unread,
            tuple(number for number, _ in stamps),
            stamped_order=any(key == ORDER_KEY for _, key in stamps),
        )
        return TaskEvidence(task, log=log, final=final)


class LiveFacts(RunFacts):
    """The family of a task is asked for when a law wants it: a live store holds more tasks than a memory."""

    def __init__(self, evidence: LiveEvidence, kin: Mapping[str, Kin]) -> None:
        super().__init__(tools={tool.name: tool for tool in waiting_kinds()}, kin=kin)
        object.__setattr__(self, "_evidence", evidence)

    def reports_of(self, task: str) -> int:
        """Counted in its log, and only for a task of which some other one has a report."""
        kin = self.kin
        assert isinstance(kin, _LiveKin)
        return kin.reports_of(task)

    def below(self, task: str) -> Iterator[tuple[str, Kin]]:
        """By the order of the ids, in which what is derived from one follows it: `.` comes right before `/`."""
        evidence: LiveEvidence = self._evidence  # type: ignore[attr-defined]
        after = f"{task}."
        while page := evidence.ask(_BELOW, [after, f"{task}/", KIN_ROWS]):
            yield from ((row[0], _kin(row)) for row in page)
            after = page[-1][0]


@dataclass
class _LiveKin(Mapping[str, Kin]):
    """Tasks of the store, looked up one by one: after the task that is judged was read, so that one that has ended
    since is told by the time of its end."""

    evidence: LiveEvidence
    _known: dict[str, Kin | None] = field(default_factory=dict)
    _reports: dict[str, int] = field(default_factory=dict)

    def forget(self) -> None:
        """Another task is judged from now on."""
        self._known.clear()
        self._reports.clear()

    def reports_of(self, task: str) -> int:
        """How many of its calls reported."""
        if task not in self._reports:
            reports = Reports()
            for entry in self.evidence.log(task):
                reports.see(entry.event)
            self._reports[task] = reports.made
        return self._reports[task]

    def __getitem__(self, task: str) -> Kin:
        if task not in self._known:
            rows = self.evidence.ask(_ONE, [task])
            self._known[task] = _kin(rows[0]) if rows else None
        found = self._known[task]
        if found is None:
            raise KeyError(task)
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self._known)

    def __len__(self) -> int:
        return int(self.evidence.ask(_COUNT, [])[0][0])


def _kin(row: Any) -> Kin:
    task, status, group, parent, born_at, first, ended_at, last = row
    return kin_from(
        task,
        Status(status),
        parent,
        group,
        born=None if first is None else (born_at, codec.decode_event(first)),
        ended=None if last is None else (ended_at, codec.decode_event(last)),
    )


def _row(row: Any) -> TaskRow:
    return TaskRow(
        id=row[0],
        queue=row[1],
        status=Status(row[2]),
        kept=row[3],
        epoch=row[4],
        worker=row[5],
        token=row[6],
        lease_until=row[7],
        ready_at=row[8],
        wake_on=None if row[9] is None else codec.decode_condition(row[9]),
        wake_key=row[10],
        wake_missing=row[11],
        inbox_seq=row[12],
        last_seq=row[13],
        takeovers=row[14],
        fail_attempts=row[15],
        parent=row[16],
        group=row[17],
        created_at=row[18],
    )
