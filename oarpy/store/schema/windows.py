"""Reservations that may move inside a window, and the offers to refused reservations."""

from __future__ import annotations

from sqlalchemy import BigInteger, Boolean, Double, Identity, Index, SmallInteger

from oarpy.store.schema.columns import CLOCK, INSTANT, NOW, column, rule, table
from oarpy.store.schema.jobs import of_job

reservation_windows = table(
    "reservation_windows",
    "reservations with a window: each runs wholly inside it, and may move there",
    of_job("the job", key=True),
    column("ready", INSTANT, "its earliest start; NULL: at once", optional=True),
    column("deadline", INSTANT, "its latest end"),
    column(
        "fix_after",
        SmallInteger,
        "percent of the time from its submission to its start after which it no longer moves; NULL: it always may",
        optional=True,
        check="fix_after BETWEEN 0 AND 100",
    ),
    column(
        "farthest",
        Double,
        "run times by which it may miss its window if that cannot be had; NULL: it is refused then",
        optional=True,
        check="farthest >= 0",
    ),
    column("fixed_at", INSTANT, "since when it no longer moves; NULL: it may", optional=True),
    column("asked_ready", INSTANT, "earliest start in the window that is asked for; NULL: at once", optional=True),
    column("asked_deadline", INSTANT, "end of the window that is asked for; NULL: none is", optional=True),
    column("take", INSTANT, "offered start that it takes if its window cannot be had; NULL: none", optional=True),
    column(
        "slack_percent",
        SmallInteger,
        "room of each alternative in percent of its walltime, with the deadline of the longest; NULL: one deadline",
        optional=True,
        check="slack_percent >= 0",
    ),
    rule("reservation_windows_check", "(ready IS NULL) OR (ready < deadline)"),
    rule("reservation_windows_asked_check", "(asked_ready IS NULL) OR (asked_ready < asked_deadline)"),
)

reservation_offers = table(
    "reservation_offers",
    "starts that refused reservations could have; they hold nothing",
    column("offer_id", BigInteger, "number of the offer", Identity(), key=True, check="offer_id > 0"),
    of_job("the reservation that was refused: who takes the offer asks for the same"),
    column("start_time", INSTANT, "the start"),
    column("end_time", INSTANT, "the end"),
    column("phi", Double, "how far it is from the window, in run times", check="phi >= 0"),
    column("made_at", INSTANT, "when it was made", default=NOW),
    column("valid_until", INSTANT, "until when it can be taken"),
    column("accepted_job", BigInteger, "the job that came of it; NULL: none", optional=True),
    column("asked_ready", INSTANT, "earliest start in the other window that was refused; NULL: at once", optional=True),
    column(
        "asked_deadline",
        INSTANT,
        "end of the other window that a reservation was refused; NULL: that of its submission",
        optional=True,
    ),
    rule("reservation_offers_check", "start_time < end_time"),
    Index("reservation_offers_job", "job_id"),
)

window_changes = table(
    "window_changes",
    "windows of reservations as they were, a row whenever one changed, or its reservation moved",
    of_job("the job"),
    column("at", INSTANT, "since when it was so", default=CLOCK),
    column("ready", INSTANT, "its earliest start then; NULL: at once", optional=True),
    column("deadline", INSTANT, "its latest end then; NULL: it had no window any more", optional=True),
    column("start_time", INSTANT, "its start then", optional=True),
    column("fixed", Boolean, "it no longer moved"),
    Index("window_changes_job", "job_id", "at"),
)
