"""Jobs may choose their own hosts: applications, what is kept back for them, links between clusters.

Revision ID: 0047
"""

from __future__ import annotations

from alembic import op
from sqlalchemy import BigInteger, Boolean, Column, Double, ForeignKey, Integer, Text, sql, text
from sqlalchemy.dialects.postgresql import ARRAY, INT4MULTIRANGE, INTERVAL, JSONB
from sqlalchemy.sql.elements import conv
from sqlalchemy.sql.schema import SchemaItem

from oarpy.store.schema.columns import INSTANT, MANY, NOW, column, rule
from oarpy.store.schema.statements import follow, make

revision = "0047"
down_revision = "0046"

_TABLES = ("cluster_links", "ghosts", "applications", "application_moves", "application_states")
_MOVES = (
    ("Submitted", "RequestSent", "request accepted"),
    ("Waiting", "RequestSent", "request accepted"),
    ("RequestSent", "Waiting", "a pass gave it a place"),
    ("Waiting", "Started", "its place begins at the instant of the pass"),
    ("Started", "FinishSent", "done, walltime over, or ended by the cluster"),
    ("Submitted", "FinishSent", "ended by the cluster"),
    ("RequestSent", "FinishSent", "ended by the cluster"),
    ("Waiting", "FinishSent", "ended by the cluster"),
    ("FinishSent", "Ghost", "the next pass has seen its end"),
    ("Ghost", "Finished", "a pass found that its ghost has ended"),
)
_STATES = ("Submitted", "RequestSent", "Waiting", "Started", "FinishSent", "Ghost", "Finished")


def upgrade() -> None:
    """Create the tables with the rows that belong to this version, and their triggers."""
    _create_lookups()
    _create_applications()
    _create_others()
    states = sql.table("application_states", sql.column("state"))
    moves = sql.table("application_moves", *map(sql.column, ("from_state", "to_state", "event")))
    op.bulk_insert(states, [{"state": state} for state in _STATES])
    op.bulk_insert(moves, [{"from_state": one, "to_state": other, "event": event} for one, other, event in _MOVES])
    make(op.get_bind(), "functions", "wrong_application_move")
    follow(op.get_bind())


def _create(table: str, *parts: SchemaItem, comment: str) -> None:
    """Create a table; conditions on columns have the names that PostgreSQL gives them."""
    for part in parts:
        for check in part.constraints if isinstance(part, Column) else ():
            check.name = conv(f"{table}_{check.name}_check")
    op.create_table(table, *parts, comment=comment)


def _create_lookups() -> None:
    _create(
        "application_states",
        column("state", Text, "name of the state", key=True),
        comment="the states of an application",
    )
    _create(
        "application_moves",
        column("from_state", Text, "state before", ForeignKey("application_states.state"), key=True),
        column("to_state", Text, "state after", ForeignKey("application_states.state"), key=True),
        column("event", Text, "when such a move is made"),
        comment="the allowed moves between states of applications, for every SQL client",
    )


def _create_applications() -> None:
    _create(
        "applications",
        column("job_id", BigInteger, "the job", ForeignKey("jobs.job_id", ondelete="CASCADE"), key=True),
        column(
            "state",
            Text,
            "present state; application_moves says what may follow",
            ForeignKey("application_states.state"),
            default="Submitted",
        ),
        column("subscribed_at", INSTANT, "when it came", default=NOW),
        column("first_asked_at", INSTANT, "when it first asked for hosts", optional=True),
        column("filter", JSONB, "which clusters it wants to be shown", default="{}"),
        column("level", Text, "what it counts: host, or a level of the hierarchy", default="host", check="level <> ''"),
        column("exact", Boolean, "whether it is also told which hosts are free throughout", default=False),
        column(
            "if_lost",
            Text,
            "what becomes of it when its launcher is lost: end or keep",
            default="end",
            check="if_lost IN ('end', 'keep')",
        ),
        column("token_hash", Text, "SHA-256 of the secret by which its launcher may come back", default=""),
        column("tag", JSONB, "name that the launcher gave the present request", optional=True),
        column("hosts", JSONB, "hosts that are asked for, by cluster", optional=True),
        column(
            "walltime",
            INTERVAL,
            "for how long they are asked for",
            optional=True,
            check="EXTRACT(epoch FROM walltime) > 0",
        ),
        column("requests", Integer, "how many requests it has made", default=0, check="requests >= 0"),
        column("serial", BigInteger, "number of the last view", default=0, check=f"serial BETWEEN 0 AND {MANY}"),
        column("view", JSONB, "the last view: number of its last change and profile, by cluster", default="{}"),
        column("answered", BigInteger, "number of the last view that was answered", default=0),
        column("told", JSONB, "the last estimate: tag, start, verdict, reason", optional=True),
        column("lost_since", INSTANT, "since when nobody speaks for it; NULL while somebody does", optional=True),
        column(
            "ended",
            Text,
            "how it ended",
            optional=True,
            check="ended IN ('done', 'walltime', 'deleted', 'lost', 'error')",
        ),
        rule(
            "applications_request_whole", "((hosts IS NULL) = (walltime IS NULL)) AND ((hosts IS NULL) = (tag IS NULL))"
        ),
        rule("applications_asked_with_request", "(hosts IS NULL) OR (first_asked_at IS NOT NULL)"),
        rule(
            "applications_asked_when_in_line",
            "(state NOT IN ('RequestSent', 'Waiting', 'Started')) OR (hosts IS NOT NULL)",
        ),
        rule("applications_answer_to_a_view", "answered BETWEEN 0 AND serial"),
        comment="jobs that choose their own hosts, with what their launchers said and were told",
    )
    op.create_index(
        "applications_live", "applications", ["job_id"], unique=True, postgresql_where=text("state <> 'Finished'")
    )


def _create_others() -> None:
    _create(
        "ghosts",
        column("job_id", BigInteger, "who freed them", ForeignKey("jobs.job_id", ondelete="CASCADE"), key=True),
        column("made_at", INSTANT, "when a pass made it"),
        column("until", INSTANT, "when it ends at the latest"),
        column("resources", INT4MULTIRANGE, "numbers of the resources that it still keeps"),
        column("owed_by", ARRAY(BigInteger), "applications that were shown it and owe an answer", default="{}"),
        column("owed_since", ARRAY(BigInteger), "the numbers of the views that showed it to them", default="{}"),
        rule("ghosts_forward", "until >= made_at"),
        rule("ghosts_owed_whole", "cardinality(owed_by) = cardinality(owed_since)"),
        comment="hosts that jobs have freed and that are kept back for a moment",
    )
    _create(
        "cluster_links",
        column("cluster", Text, "one of the two", key=True, check="cluster <> ''"),
        column("other", Text, "the other one, later in alphabetical order", key=True),
        column("latency", Double, "seconds", check="latency >= 0"),
        column("bandwidth", Double, "bytes a second", check="bandwidth > 0"),
        rule("cluster_links_ordered", 'cluster COLLATE "C" < other COLLATE "C"'),
        comment="what clusters have between them, as an admin says (oaradmin links)",
    )


def downgrade() -> None:
    """Take them away, with what the past has of them."""
    for name in ("ghosts", "applications"):
        op.execute(f"DROP VIEW IF EXISTS oar_all.{name}")
        op.execute(f"DROP TABLE IF EXISTS oar_past.{name}")
    for name in _TABLES:
        op.drop_table(name)
    op.execute("DROP FUNCTION wrong_application_move")
