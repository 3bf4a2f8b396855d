"""A cluster lets brokers in: grants, parts, their transactions and events, gates of launches.

Revision ID: 0057
"""

from __future__ import annotations

from alembic import op
from sqlalchemy import BigInteger, Column, ForeignKey, Identity, Integer, Text, sql, text
from sqlalchemy.dialects.postgresql import ARRAY, INTERVAL, JSONB
from sqlalchemy.sql.elements import conv
from sqlalchemy.sql.schema import SchemaItem

from oarpy.store.schema.columns import AUTHOR, CLOCK, INSTANT, NOW, column, rule
from oarpy.store.schema.statements import follow, make

revision = "0057"
down_revision = "0056"

_TABLES = (
    "launch_gates",
    "door_events",
    "door_calls",
    "door_parts",
    "door_transactions",
    "door_moves",
    "grid_grants",
)
_OF_JOBS = ("launch_gates", "door_events", "door_parts")
_MOVES = (
    ("part", "Prepared", "Committed", "its transaction was committed"),
    ("part", "Prepared", "Aborted", "its transaction was aborted, or it lapsed"),
    ("part", "Committed", "Frozen", "a transaction is about to withdraw it"),
    ("part", "Frozen", "Committed", "that transaction was aborted, or it lapsed"),
    ("part", "Frozen", "Aborted", "that transaction was committed"),
    ("transaction", "Prepared", "Committed", "the broker decided so"),
    ("transaction", "Prepared", "Aborted", "the broker decided so, or a part of it lapsed"),
)
_BROKER = "broker ~ '^[A-Za-z0-9_][A-Za-z0-9_.-]{0,62}$'"


def upgrade() -> None:
    """Create the tables with the rows that belong to this version, and their triggers."""
    _create_grants()
    _create_transactions()
    _create_parts()
    _create_events()
    _create_gates()
    moves = sql.table("door_moves", *map(sql.column, ("subject", "from_state", "to_state", "event")))
    names = ("subject", "from_state", "to_state", "event")
    op.bulk_insert(moves, [dict(zip(names, move, strict=True)) for move in _MOVES])
    make(op.get_bind(), "functions", "wrong_door_move", "parts_told")
    follow(op.get_bind())


def _create(table: str, *parts: SchemaItem, comment: str) -> None:
    """Create a table; conditions on columns have the names that PostgreSQL gives them."""
    for part in parts:
        for check in part.constraints if isinstance(part, Column) else ():
            check.name = conv(f"{table}_{check.name}_check")
    op.create_table(table, *parts, comment=comment)


def _create_grants() -> None:
    _create(
        "grid_grants",
        column("broker", Text, "name of the broker", key=True, check=_BROKER),
        column("broker_user", Text, "its user", key=True, check="broker_user <> ''"),
        column("local_user", Text, "who that is here", check="local_user NOT IN ('', 'root')"),
        column("queues", ARRAY(Text), "queues that it may use; empty: those that the user may", default="{}"),
        column(
            "most_resources",
            Integer,
            "resources of a part at most; NULL: no limit",
            optional=True,
            check="most_resources > 0",
        ),
        column(
            "longest_walltime",
            INTERVAL,
            "walltime of a part at most; NULL: no limit",
            optional=True,
            check="EXTRACT(epoch FROM longest_walltime) > 0",
        ),
        column("granted_by", Text, "who granted it", default=AUTHOR),
        column("granted_at", INSTANT, "when", default=NOW),
        comment="for whom brokers of several clusters may act here, and how far",
    )


def _create_transactions() -> None:
    _create(
        "door_moves",
        column("subject", Text, "what moves: part or transaction", key=True),
        column("from_state", Text, "state before", key=True),
        column("to_state", Text, "state after", key=True),
        column("event", Text, "when such a move is made"),
        comment="the allowed moves between states of brokers' parts and transactions, for every SQL client",
    )
    _create(
        "door_transactions",
        column("broker", Text, "name of the broker", key=True, check=_BROKER),
        column("transaction", Text, "its name for the transaction", key=True, check="transaction <> ''"),
        column(
            "state",
            Text,
            "present state; door_moves says what may follow",
            default="Prepared",
            check="state IN ('Prepared', 'Committed', 'Aborted')",
        ),
        column("at", INSTANT, "when it was first heard of", default=NOW),
        comment="transactions of brokers, as far as they concern this cluster",
    )
    op.create_index("door_transactions_at", "door_transactions", ["at"])


def _create_parts() -> None:
    _create(
        "door_parts",
        column("broker", Text, "name of the broker", key=True, check=_BROKER),
        column("part", Text, "its name for the part", key=True, check="part <> ''"),
        column("job_id", BigInteger, "the job that it is", ForeignKey("jobs.job_id", ondelete="CASCADE")),
        column(
            "kind",
            Text,
            "claim: holds idle resources; queued: waits in its queue; reserved: holds from a date on",
            check="kind IN ('claim', 'queued', 'reserved')",
        ),
        column(
            "state",
            Text,
            "present state; door_moves says what may follow",
            default="Prepared",
            check="state IN ('Prepared', 'Committed', 'Frozen', 'Aborted')",
        ),
        column("transaction", Text, "the transaction that made it, or froze it last", check="transaction <> ''"),
        column("begin_at", INSTANT, "when it is to begin; NULL: when it can", optional=True),
        column("walltime", INTERVAL, "for how long it runs at most", check="EXTRACT(epoch FROM walltime) > 0"),
        column("made_at", INSTANT, "when it was asked for", default=CLOCK),
        column("held_at", INSTANT, "since when the broker can count on it; NULL: it is being made", optional=True),
        column("lapses_at", INSTANT, "when it lapses without a commit; NULL: it does not", optional=True),
        column("hosts", ARRAY(Text), "hosts of all components, as the broker told", default="{}"),
        rule("door_parts_lapse_undecided", "(lapses_at IS NOT NULL) = (state IN ('Prepared', 'Frozen'))"),
        rule("door_parts_begin_unless_queued", "(begin_at IS NULL) = (kind = 'queued')"),
        rule("door_parts_held_when_committed", "(state NOT IN ('Committed', 'Frozen')) OR (held_at IS NOT NULL)"),
        comment="jobs that brokers have here, as parts of jobs on several clusters",
    )
    op.create_index("door_parts_job", "door_parts", ["job_id"], unique=True)
    op.create_index("door_parts_transaction", "door_parts", ["broker", "transaction"])
    op.create_index("door_parts_undecided", "door_parts", ["lapses_at"], postgresql_where=text("lapses_at IS NOT NULL"))


def _create_events() -> None:
    _create(
        "door_calls",
        column("broker", Text, "name of the broker", key=True, check=_BROKER),
        column("key", Text, "what the broker calls the call", key=True, check="key <> ''"),
        column("call", Text, "what it was"),
        column("answer", JSONB, "what was answered"),
        column("at", INSTANT, "when", default=NOW),
        comment="calls of brokers that were carried out, so that one asked again gets the same answer",
    )
    op.create_index("door_calls_at", "door_calls", ["at"])
    _create(
        "door_events",
        column("event_id", BigInteger, "number of the event here", Identity(), key=True),
        column("broker", Text, "name of the broker"),
        column("number", BigInteger, "its number for the broker, given when it is first told", optional=True),
        column("part", Text, "the part"),
        column(
            "kind",
            Text,
            "what happened",
            check="kind IN ('started', 'ended', 'failed', 'lost', 'evicted', 'lapsed')",
        ),
        column("at", INSTANT, "when", default=CLOCK),
        column("job_id", BigInteger, "its job", ForeignKey("jobs.job_id", ondelete="CASCADE")),
        column("hosts", ARRAY(Text), "of one that started: the host of each of its resources", default="{}"),
        column("exit_status", Integer, "wait status of its command", optional=True),
        column("reason", Text, "why, of one that did not end by itself", default=""),
        comment="what happened to parts of brokers; written by triggers",
    )
    op.create_index("door_events_job", "door_events", ["job_id"])
    op.create_index(
        "door_events_number",
        "door_events",
        ["broker", "number"],
        unique=True,
        postgresql_where=text("number IS NOT NULL"),
    )
    op.create_index(
        "door_events_untold", "door_events", ["broker", "event_id"], postgresql_where=text("number IS NULL")
    )


def _create_gates() -> None:
    _create(
        "launch_gates",
        column("job_id", BigInteger, "the job", ForeignKey("jobs.job_id", ondelete="CASCADE"), key=True),
        column("expected_at", INSTANT, "when it is to begin, which is planned with"),
        column("opens_at", INSTANT, "from when on it may be launched; NULL: not yet allowed", optional=True),
        column("walltime", INTERVAL, "for how long it runs then, at most", check="EXTRACT(epoch FROM walltime) > 0"),
        comment="jobs that hold their resources and are not launched before a date; gone once they are",
    )


def downgrade() -> None:
    """Take them away, with what the past has of them."""
    op.execute("DROP TRIGGER parts_told ON jobs")
    op.execute("DROP FUNCTION parts_told")
    for name in _OF_JOBS:
        op.execute(f"DROP VIEW IF EXISTS oar_all.{name}")
        op.execute(f"DROP TABLE IF EXISTS oar_past.{name}")
    for name in _TABLES:
        op.drop_table(name)
    op.execute("DROP FUNCTION wrong_door_move")
    follow(op.get_bind())
