"""Every limit of the kernel, as a named constant with its unit and its reason.

A value beyond a limit is refused with ``BadInput`` naming the field, the limit and the value, before any
side effect. Limits that a source document prints stand where that document puts them (`retry.py`,
`texts.py`, `tool.py`, `task.py`), not here.
"""

from __future__ import annotations

from typing import Final

TASK_ID_CHARS_MAX: Final = 200
"""Ids travel in log lines, index entries and error texts; 200 keeps an index entry on one page."""

NAME_CHARS_MAX: Final = 200
"""Queues, workers, agents, handles, event kinds, tool names."""

KEY_CHARS_MAX: Final = 500
"""Dedupe keys; derived keys hold a task id and a handle."""

NAME_BYTES_MAX: Final = 400
"""Ids and names, as UTF-8. An index counts bytes, not characters: see ``KEY_BYTES_MAX``."""

KEY_BYTES_MAX: Final = 1_600
"""Dedupe keys, as UTF-8: with the id and a derived mark beside it, it stays below the 2,704 bytes of a Postgres index
entry, so that no key a store accepts is one it cannot look up."""

REASON_CHARS_MAX: Final = 4_000
"""Reasons of failures; longer ones are cut, never refused: an error path must not fail on its own text."""

JSON_DEPTH_MAX: Final = 200
"""Nesting of a JSON value. Python, msgspec and Postgres all read this depth without recursion trouble."""

BODY_BYTES_MAX: Final = 4 * 1024 * 1024
"""One entry, encoded."""

ITEM_BYTES_MAX: Final = BODY_BYTES_MAX - 16 * 1024
"""One inbox item, and one reply of a model: the entry that takes it, or repeats it as an answer, wraps it."""

COMMAND_BYTES_MAX: Final = 128 * 1024
"""The command of a background job: Linux takes no longer single argument (MAX_ARG_STRLEN)."""

CRONS_MAX: Final = 50
"""Entries of one task's cron table: all of them are looked at whenever it rests."""

CRON_PROMPT_BYTES_MAX: Final = 64 * 1024
"""What begins a turn, each time: many may be due at once."""

COMMIT_BYTES_MAX: Final = 16 * 1024 * 1024
"""All bodies of one commit together: one round trip that a 5 s statement timeout can carry."""

RESULT_BYTES_MAX: Final = 2 * 1024 * 1024
"""A sub-agent's answer as its parent gets it, encoded; the rest is cut, and the text says so. Its own log holds all."""

GROUP_MEMBERS_MAX: Final = 100
"""Sub-agents of one call."""

MEMBER_RESULT_BYTES_MAX: Final = 32 * 1024
"""The same for one member of a group: the results of a full group fit one entry."""

GOALS_BYTES_MAX: Final = BODY_BYTES_MAX - 16 * 1024
"""What one call asks of all its sub-agents together, encoded."""

COMMIT_PARTS_MAX: Final = 1_000
"""Entries, children, posts or contents of one commit, each."""

INTEGER_MAX: Final = 2**63 - 1
"""Integers beyond 64 bits change type in most JSON readers, so they are refused."""

CONTENT_BYTES_MAX: Final = 64 * 1024 * 1024
"""One content-store body."""

LEASE_SECONDS_MAX: Final = 7 * 24 * 3600.0
"""A lease longer than a week is a typing error: nobody could take the task over for that long."""

DELAY_SECONDS_MAX: Final = 10 * 365 * 24 * 3600.0
"""The longest delay of a task or timer: ten years."""

INSTANT_SECONDS_MAX: Final = 253_402_300_800.0
"""The latest instant a timer can be set to: the end of the year 9999, which every calendar can still name."""

CRON_EXPRESSION_CHARS_MAX: Final = 400
"""A cron expression: a list of every minute, hour and day of the month still fits."""

PAGE_ENTRIES_MAX: Final = 10_000
"""Entries or rows one read answers at the most; readers page."""

CLAIM_LIMIT_MAX: Final = 100
"""Tasks one claim call takes at the most."""

ANSWER_BYTES_MAX: Final = 8_192
"""What a write verb answers stays below this, so that a frozen client never keeps row locks
(a reply that fits the socket buffer is sent whether or not it is read)."""
