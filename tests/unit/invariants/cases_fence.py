"""Histories for the laws about who may write: one-writer, epochs-rise, acked-stays, row-agrees."""

from __future__ import annotations

from tests.unit.invariants.case import invalid, unknown, valid

ONE_WRITER = (
    valid("one-writer", "two owners, one after the other", "1/0 created; 2/1 called; 3/2 sealed 2; 4/2 called"),
    valid(
        "one-writer",
        "a row of the new owner, who then writes",
        "1/0 created; 2/1 called; row running/2 w2 last=2; 3/2 sealed 2",
    ),
    valid(
        "one-writer",
        "a renewed lease",
        "1/0 created; w1:claim /1 ok lease=5; w1:renew /1 ok lease=20; 2/1 called at=10",
        renewals_recorded=True,
    ),
    valid(
        "one-writer",
        "a late entry while a renewal got no answer",
        "1/0 created; w1:claim /1 ok lease=5; w1:renew /1 never lease=5; 2/1 called at=10",
        renewals_recorded=True,
    ),
    valid(
        "one-writer",
        "leases are not judged when renewals are not recorded",
        "1/0 created; w1:claim /1 ok lease=5; 2/1 called at=10",
    ),
    valid(
        "one-writer",
        "a refused append of a replaced worker",
        "1/0 created; 2/2 called; w1:append 2-2/1 conflict; w2:append 2-2/2 ok",
    ),
    invalid("one-writer", "an old epoch after a new one", "1/0 created; 2/2 called; 3/1 replied", "zombie-append"),
    invalid(
        "one-writer",
        "a replaced worker writes, its successor has not yet",
        "1/0 created; 2/1 called; row running/2 w2 last=2; 3/1 replied",
        "zombie-append",
    ),
    invalid(
        "one-writer",
        "a replaced worker writes after an answered claim",
        "1/0 created; 2/1 called; w2:claim /2 ok last=2; 3/1 replied",
        "zombie-append",
    ),
    invalid(
        "one-writer",
        "an epoch that nobody was given",
        "1/0 created; 2/5 called; row running/1 w1 last=2",
        "unclaimed-epoch",
    ),
    invalid(
        "one-writer",
        "two tokens under one epoch",
        "1/0 created; 2/1 called; 3/1 replied; w1:append 2-2/1 ok token=a; w2:append 3-3/1 ok token=b",
        "shared-epoch",
    ),
    invalid(
        "one-writer",
        "an append that had not read the log's end",
        "1/0 created; 2/1 called; 3/1 replied; w1:append 2-2/1 ok last=3",
        "stale-seq",
    ),
    invalid(
        "one-writer",
        "an entry after the lease",
        "1/0 created; w1:claim /1 ok lease=5; 2/1 called at=10",
        "after-lease",
        renewals_recorded=True,
    ),
    valid(
        "one-writer",
        "a lease renewed in time, given up, and claimed by the next",
        "1/0 created; w1:claim /1 ok lease=20; w1:renew /1 ok lease=25; 2/1 called at=16; w2:claim /2 ok lease=27",
        renewals_recorded=True,
        lease=10_000_000,
    ),
    valid(
        "one-writer",
        "a renewal with a gap that one without an answer may have filled",
        "1/0 created; w1:claim /1 ok lease=20; w1:renew /1 never lease=20; w1:renew /1 ok lease=39; 2/1 called at=16",
        renewals_recorded=True,
        lease=10_000_000,
    ),
    valid(
        "one-writer",
        "late renewals are not judged when leases differ",
        "1/0 created; w1:claim /1 ok lease=20; w1:renew /1 ok lease=60; 2/1 called at=16; w2:claim /2 ok lease=27",
        renewals_recorded=True,
    ),
    invalid(
        "one-writer",
        "a renewal of a replaced claim",
        "1/0 created; w1:claim /1 ok lease=20; 2/1 called at=12; w2:claim /2 ok lease=31; w1:renew /1 ok lease=33",
        "stale-renewal",
        renewals_recorded=True,
        lease=10_000_000,
    ),
    invalid(
        "one-writer",
        "a renewal after the lease",
        "1/0 created; w1:claim /1 ok lease=20; 2/1 called at=12; w1:renew /1 ok lease=31",
        "revived-lease",
        renewals_recorded=True,
        lease=10_000_000,
    ),
    valid(
        "one-writer",
        "a clock set back a little",
        "1/0 created; w1:claim /1 ok lease=90; 2/1 called at=10; 3/1 replied at=9",
        renewals_recorded=True,
    ),
    invalid(
        "one-writer",
        "an entry long before the one before it",
        "1/0 created; w1:claim /1 ok lease=90; 2/1 called at=10; 3/1 replied at=7",
        "two-clocks",
        renewals_recorded=True,
    ),
    unknown("one-writer", "no claim ever wrote", "1/0 created"),
    unknown("one-writer", "nothing", ""),
)

EPOCHS_RISE = (
    valid(
        "epochs-rise",
        "a claim, a release, another claim",
        "row running/1 w1; row pending/1; row running/2 w2; end terminal/2",
    ),
    valid(
        "epochs-rise", "one worker's name twice, each claim its own epoch", "row running/1 w1; row running/2 w1 token=x"
    ),
    invalid("epochs-rise", "a row goes back", "row running/3 w1; row running/2 w2", "epoch-back"),
    invalid(
        "epochs-rise", "the final row is behind the log", "1/0 created; 2/4 called; end pending/3 last=2", "epoch-back"
    ),
    invalid("epochs-rise", "one epoch, two workers", "row running/1 w1; row running/1 w2", "two-owners"),
    invalid("epochs-rise", "one epoch, two tokens", "row running/1 w1 token=a; row running/1 w1 token=b", "two-owners"),
    invalid(
        "epochs-rise", "an append under another's epoch", "row running/1 w1; w2:append 2-2/1 conflict", "two-owners"
    ),
    unknown("epochs-rise", "a log alone names no owner", "1/0 created; 2/1 called"),
    unknown("epochs-rise", "nothing", ""),
)

ACKED_STAYS = (
    valid("acked-stays", "an acknowledged append", "1/0 created; 2/1 called; 3/1 replied; w1:append 2-3/1 ok last=3"),
    valid("acked-stays", "a refused one", "1/0 created; 2/2 called; w1:append 2-2/1 conflict; w2:append 2-2/2 ok"),
    valid(
        "acked-stays",
        "an unknown one that landed whole",
        "1/0 created; 2/1 called; 3/1 replied; w1:append 2-3/1 unknown",
    ),
    valid(
        "acked-stays", "an unanswered one that did not land", "1/0 created; 2/2 called; w1:append 2-3/1 never hash=x,y"
    ),
    valid(
        "acked-stays",
        "refused, then sent again by the same claim",
        "1/0 created; 2/1 called; w1:append 2-2/1 unavailable; w1:append 2-2/1 ok",
    ),
    valid(
        "acked-stays",
        "the same bytes under another epoch",
        "1/0 created; 2/2 called hash=x; w1:append 2-2/1 unavailable hash=x",
    ),
    valid(
        "acked-stays",
        "an ending held back because the inbox had moved",
        "1/0 created; 2/1 called; 3/1 taken 1; w1:append 2-3/1 ok last=2 back hash=h2,end",
    ),
    valid(
        "acked-stays",
        "an ending held back, the answer lost",
        "1/0 created; 2/1 called; 3/2 taken 1; w1:append 2-3/1 never back hash=h2,end",
    ),
    valid("acked-stays", "a create, repeated", "1/0 created; c:create 1-1/- unknown; c:create 1-1/- ok"),
    invalid("acked-stays", "an acknowledged entry is gone", "1/0 created; w1:append 2-2/1 ok", "lost"),
    invalid("acked-stays", "an acknowledged task is gone", "c:create 1-1/- ok", "lost"),
    invalid(
        "acked-stays",
        "an acknowledged entry has other bytes",
        "1/0 created; 2/1 called hash=x; w1:append 2-2/1 ok",
        "changed",
    ),
    invalid(
        "acked-stays",
        "an acknowledged entry was overwritten by the next owner",
        "1/0 created; 2/2 called hash=x; w1:append 2-2/1 ok",
        "changed",
    ),
    invalid(
        "acked-stays",
        "half a commit acknowledged",
        "1/0 created; 2/1 called; w1:append 2-3/1 ok last=2",
        "short-answer",
    ),
    invalid(
        "acked-stays",
        "refused, and yet in the log",
        "1/0 created; 2/1 called; w1:append 2-2/1 conflict",
        "refused-landed",
    ),
    invalid(
        "acked-stays",
        "unavailable, and yet in the log",
        "1/0 created; 2/1 called; w1:append 2-2/1 unavailable",
        "refused-landed",
    ),
    invalid(
        "acked-stays",
        "an ending answered as held back, and yet in the log",
        "1/0 created; 2/1 called; 3/1 completed; w1:append 2-3/1 ok last=2 back",
        "refused-landed",
    ),
    invalid("acked-stays", "half of an unknown commit", "1/0 created; 2/1 called; w1:append 2-3/1 unknown", "torn"),
    invalid(
        "acked-stays",
        "the second half of an unanswered commit",
        "1/0 created; 2/2 called hash=x; 3/1 replied; w1:append 2-3/1 never",
        "torn",
    ),
    valid(
        "acked-stays",
        "an unanswered failure that ended the task",
        "1/0 created; 2/1 failed max_attempts_exceeded; w1:fail /1 never hash=h2 expects=-",
    ),
    valid(
        "acked-stays",
        "an unanswered failure that will be tried again",
        "1/0 created; w1:fail /1 never hash=x expects=-",
    ),
    valid(
        "acked-stays",
        "a failure of unknown outcome, and its refused repeat",
        "1/0 created; 2/1 failed max_attempts_exceeded; w1:fail /1 unknown hash=h2 expects=-; "
        "w1:fail /1 conflict hash=h2 expects=-",
    ),
    valid(
        "acked-stays",
        "a refused failure, and the same one under the next epoch",
        "1/0 created; 2/2 failed max_attempts_exceeded; w1:fail /1 conflict hash=h2 expects=-; w2:fail 2-2/2 ok",
    ),
    invalid(
        "acked-stays",
        "a failure that was refused, and yet ended the task",
        "1/0 created; 2/1 failed max_attempts_exceeded; w1:fail /1 conflict hash=h2 expects=-",
        "refused-landed",
    ),
    unknown("acked-stays", "nobody recorded a write", "1/0 created; 2/1 called; w1:renew /1 ok"),
    unknown("acked-stays", "nothing", ""),
)

_WAITS = "1/0 created interactive; 2/1 called; 3/1 replied; 4/1 suspended human; "

ROW_AGREES = (
    valid(
        "row-agrees",
        "a task's life",
        "1/0 created; row pending/0 last=1; 2/1 called; row running/1 w1 last=2; 3/1 replied; 4/1 suspended human; row "
        "suspended/1 last=4 on=human; row pending/1 last=4 unread=1; row running/2 w2 last=4 unread=1; 5/2 woken 1 "
        "human; row running/2 w2 last=5; 6/2 cancelled; end terminal/2 last=6",
    ),
    valid("row-agrees", "a due timer", "1/0 created; 2/1 suspended timer:3; row pending/1 last=2 at=4"),
    valid(
        "row-agrees",
        "a claim kept for another reason than jobs that lapsed",
        _WAITS + "row suspended/1 w1 kept last=4 on=human; row pending/1 last=4",
        keeps_claims=True,
    ),
    invalid(
        "row-agrees", "an open task with an ended row", "1/0 created; 2/1 called; end terminal/1 last=2", "row-ended"
    ),
    invalid(
        "row-agrees",
        "an ended task with an open row",
        "1/0 created; 2/1 completed; end running/1 w1 last=2",
        "row-not-ended",
    ),
    invalid(
        "row-agrees",
        "a suspended row in the middle of a turn",
        "1/0 created; 2/1 called; row suspended/1 last=2 on=human",
        "row-waits",
    ),
    invalid("row-agrees", "another wait", _WAITS + "row suspended/1 last=4 on=event:rain", "other-wait"),
    invalid(
        "row-agrees",
        "another timer",
        "1/0 created; 2/1 suspended timer:90; row suspended/1 last=2 on=timer:91",
        "other-wait",
    ),
    invalid(
        "row-agrees",
        "woken by nothing, and its row was not kept",
        _WAITS + "row suspended/1 last=4 on=human; row pending/1 last=4",
        "woken-by-nothing",
        keeps_claims=True,
    ),
    invalid(
        "row-agrees",
        "woken by nothing, nobody keeps claims",
        _WAITS + "row running/2 w2 last=4",
        "woken-by-nothing",
    ),
    invalid(
        "row-agrees",
        "a timer's row before its time",
        "1/0 created; 2/1 suspended timer:90; row pending/1 last=2 at=4",
        "woken-by-nothing",
    ),
    invalid("row-agrees", "running without an owner", "1/0 created; 2/1 called; row running/1 last=2", "owner"),
    invalid("row-agrees", "pending with an owner", "1/0 created; row pending/1 w1 last=1", "owner"),
    invalid(
        "row-agrees",
        "the final row is short of the log",
        "1/0 created; 2/1 called; end running/1 w1 last=1",
        "last-seq",
    ),
    invalid("row-agrees", "a row once knew of more", "1/0 created; row running/1 w1 last=2", "last-seq"),
    unknown("row-agrees", "rows were never read", "1/0 created; 2/1 called"),
    unknown("row-agrees", "the log does not fold", "1/0 created; 3/1 called; row running/1 w1 last=3"),
    unknown("row-agrees", "nothing", ""),
)

CASES = (*ONE_WRITER, *EPOCHS_RISE, *ACKED_STAYS, *ROW_AGREES)
