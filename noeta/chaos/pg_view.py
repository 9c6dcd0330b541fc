"""What the harness reads of a Postgres schema past the store: small columns, in short statements, locking nothing."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import Any, Final, Self

from psycopg import sql

from invariants.evidence import FinalRow, Sample
from invariants.kinship import ORDER_KEY
from noeta.chaos.board import Seen
from noeta.chaos.pg_session import PgSession
from noeta.core import codec
from noeta.core.store import LogPage
from noeta.core.task import Status

PAGE_ROWS: Final = 500

_ROWS: Final = """
SELECT t.id, t.queue, t.status, t.kept, t.epoch, t.worker, t.token, t.last_seq, t.inbox_seq, t.wake_on::text,
    t.ready_at, t.lease_until, (SELECT {schema}.clock()),
    (SELECT count(*) FROM {schema}.item i
     WHERE i.task_id = t.id AND i.taken_seq IS NULL AND i.unread_seq IS NULL)
FROM {schema}.task t
WHERE t.id > %s AND (t.status <> 'terminal' OR NOT t.id = ANY(%s))
ORDER BY t.id LIMIT %s
"""

_STAMPED: Final = """
SELECT i.number, i.key FROM {schema}.item i WHERE i.task_id = %s AND i.unread_seq IS NOT NULL ORDER BY i.number
"""

_CLOCK: Final = "SELECT {schema}.clock()"


class PgView:
    """Implements ``StoreView``, in a session of its own."""

    def __init__(self, dsn: str, schema: str, name: str = "noeta harness") -> None:
        self._schema = sql.Identifier(schema)
        self._session = PgSession(dsn, name)

    def rows(self, leave_out: Sequence[str] = ()) -> tuple[list[Seen], int]:
        found: list[Seen] = []
        after, now = "", 0
        while True:
            page = self._ask(_ROWS, [after, list(leave_out), PAGE_ROWS])
            found += [_seen(row) for row in page]
            now = max([now, *(row[12] for row in page)])
            if len(page) < PAGE_ROWS:
                return found, now or self.clock()
            after = page[-1][0]

    def clock(self) -> int:
        return int(self._ask(_CLOCK, [])[0][0])

    def stamped(self, task: str) -> tuple[int, ...]:
        return tuple(number for number, _ in self._ask(_STAMPED, [task]))

    def final(self, page: LogPage) -> FinalRow:
        stamps = self._ask(_STAMPED, [page.row.id]) if page.row.status is Status.TERMINAL else []
        return FinalRow(
            self.clock(),
            page.row,
            page.unread,
            tuple(number for number, _ in stamps),
            page.inbox_seen,
            any(key == ORDER_KEY for _, key in stamps),
        )

    def close(self) -> None:
        self._session.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _ask(self, statement: str, values: list[Any]) -> list[Any]:
        return self._session.ask(sql.SQL(statement).format(schema=self._schema), values)


def _seen(row: Any) -> Seen:
    wake_on = None if row[9] is None else codec.decode_condition(row[9])
    sample = Sample(
        at=row[12],
        task=row[0],
        status=Status(row[2]),
        kept=row[3],
        epoch=row[4],
        worker=row[5],
        token=row[6],
        last_seq=row[7],
        inbox_seq=row[8],
        wake_on=wake_on,
        unread=row[13],
        leased=row[11] is not None,
    )
    return Seen(sample, queue=row[1], ready_at=row[10], lease_until=row[11])
