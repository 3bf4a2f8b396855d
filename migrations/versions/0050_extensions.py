"""Running jobs may grow and shrink: extensions, resizes, and which of their resources came with which extension.

Revision ID: 0050
"""

from __future__ import annotations

from alembic import op
from sqlalchemy import BigInteger, Column, ForeignKey, Identity, Integer, Text, sql, text
from sqlalchemy.dialects.postgresql import ARRAY, JSONB
from sqlalchemy.sql.elements import conv
from sqlalchemy.sql.schema import SchemaItem

from oarpy.store.schema.columns import CLOCK, INSTANT, column, rule
from oarpy.store.schema.statements import follow, make

revision = "0050"
down_revision = "0049"

_TABLES = ("resizes", "extensions", "extension_moves")
_MOVES = (
    ("Waiting", "Granting", "a pass gave it hosts"),
    ("Granting", "Granted", "the nodes of the job know"),
    ("Waiting", "Withdrawn", "withdrawn, or replaced by a newer one"),
    ("Waiting", "Over", "its job is over"),
    ("Granting", "Over", "its job is over"),
    ("Granted", "Over", "its job is over, or has none of its hosts any more"),
)
_FUNCTIONS = ("wrong_application_move", "wrong_extension_move", "extension_of_job", "holding_stays")
_HELD = "assigned_resources"


def upgrade() -> None:
    """Create the tables with the rows that belong to this version, the columns, and their triggers."""
    _create_extensions()
    _create_resizes()
    moves = sql.table("extension_moves", *map(sql.column, ("from_state", "to_state", "event")))
    op.bulk_insert(moves, [{"from_state": one, "to_state": other, "event": event} for one, other, event in _MOVES])
    _extend_holdings()
    make(op.get_bind(), "functions", *_FUNCTIONS)
    follow(op.get_bind())


def _create(table: str, *parts: SchemaItem, comment: str) -> None:
    """Create a table; conditions on columns have the names that PostgreSQL gives them."""
    for part in parts:
        for check in part.constraints if isinstance(part, Column) else ():
            check.name = conv(f"{table}_{check.name}_check")
    op.create_table(table, *parts, comment=comment)


def _create_extensions() -> None:
    _create(
        "extension_moves",
        column("from_state", Text, "state before", key=True),
        column("to_state", Text, "state after", key=True),
        column("event", Text, "when such a move is made"),
        comment="the allowed moves between states of extensions, for every SQL client",
    )
    _create(
        "extensions",
        column("extension_id", BigInteger, "number of the extension", Identity(), key=True, check="extension_id > 0"),
        column("job_id", BigInteger, "the job that grows", ForeignKey("jobs.job_id", ondelete="CASCADE")),
        column(
            "kind",
            Text,
            "firm: until the end of the job; revocable: until somebody needs them",
            check="kind IN ('firm', 'revocable')",
        ),
        column("tag", JSONB, "name that the launcher gave it", optional=True),
        column("hosts", JSONB, "how many hosts, by cluster", check="jsonb_typeof(hosts) = 'object'"),
        column("asked_at", INSTANT, "when it was asked for, which ranks it", default=CLOCK),
        column(
            "state",
            Text,
            "present state; extension_moves says what may follow",
            default="Waiting",
            check="state IN ('Waiting', 'Granting', 'Granted', 'Withdrawn', 'Over')",
        ),
        column("told", JSONB, "the last estimate: tag, start, verdict, reason", optional=True),
        comment="hosts that are asked for jobs that run",
    )
    op.create_index("extensions_job", "extensions", ["job_id"])
    live = text("state IN ('Waiting', 'Granting', 'Granted')")
    op.create_index("extensions_live", "extensions", ["job_id"], postgresql_where=live)
    asked = text("state = 'Waiting'")
    op.create_index("extensions_asked", "extensions", ["job_id", "kind"], unique=True, postgresql_where=asked)


def _create_resizes() -> None:
    _create(
        "resizes",
        column("resize_id", BigInteger, "number of the resize", Identity(), key=True, check="resize_id > 0"),
        column("job_id", BigInteger, "the job", ForeignKey("jobs.job_id", ondelete="CASCADE")),
        column("resource_ids", ARRAY(Integer), "the resources that come or go", check="resource_ids <> '{}'"),
        column(
            "kind",
            Text,
            "grant: they come; release: the job gives them back; take: they are taken from it",
            check="kind IN ('grant', 'release', 'take')",
        ),
        column(
            "extension_id",
            BigInteger,
            "the extension that is granted",
            ForeignKey("extensions.extension_id", ondelete="CASCADE"),
            optional=True,
        ),
        column("asked_at", INSTANT, "when", default=CLOCK),
        column("done_at", INSTANT, "when the nodes had confirmed, or the job was over; NULL before", optional=True),
        rule("resizes_grant_extensions", "(kind = 'grant') = (extension_id IS NOT NULL)"),
        comment="what the nodes of running jobs are to be told: hosts that come or go",
    )
    op.create_index("resizes_job", "resizes", ["job_id"])
    op.create_index("resizes_extension", "resizes", ["extension_id"])
    op.create_index("resizes_open", "resizes", ["job_id"], postgresql_where=text("done_at IS NULL"))


def _extend_holdings() -> None:
    extension = "the extension that it came with last; NULL: with the start"
    op.add_column(_HELD, column("extension_id", BigInteger, extension, optional=True))
    reclaim = column("reclaim_at", INSTANT, "when it will be taken from the job, as others need it", optional=True)
    for check in reclaim.constraints:
        check.name = conv(f"{_HELD}_{check.name}_check")
    op.add_column(_HELD, reclaim)
    op.create_check_constraint(
        op.f("reclaimed_with_extension"), _HELD, "(reclaim_at IS NULL) OR (extension_id IS NOT NULL)"
    )
    going = text("reclaim_at IS NOT NULL")
    op.create_index("assigned_resources_reclaimed", _HELD, ["reclaim_at"], postgresql_where=going)


_APPLICATION_MOVES = """
CREATE OR REPLACE FUNCTION wrong_application_move() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        RAISE EXCEPTION 'application % begins as Submitted, not as %', NEW.job_id, NEW.state
            USING ERRCODE = 'check_violation', HINT = 'application_moves lists the allowed moves';
    ELSIF NOT EXISTS (SELECT FROM application_moves WHERE from_state = OLD.state AND to_state = NEW.state) THEN
        RAISE EXCEPTION 'application % cannot go from % to %', OLD.job_id, OLD.state, NEW.state
            USING ERRCODE = 'check_violation', HINT = 'application_moves lists the allowed moves';
    END IF;
    RETURN NEW;
END $$;
"""
_HOLDINGS = """
CREATE OR REPLACE FUNCTION holding_stays() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    past tstzmultirange := tstzmultirange(tstzrange(NULL, now()));
    present text := (SELECT state FROM jobs WHERE job_id = OLD.job_id);
BEGIN
    IF may_rewrite_history(TG_RELID) THEN
        RETURN coalesce(NEW, OLD);
    END IF;
    IF TG_OP = 'DELETE' THEN
        IF EXISTS (SELECT FROM job_states WHERE state = present AND (holding OR final)) THEN
            RAISE EXCEPTION 'job % (%) holds or held resource %, which stays', OLD.job_id, present, OLD.resource_id
                USING ERRCODE = 'check_violation', HINT = 'oardel ends a job, and takes its resources from it';
        END IF;
        RETURN OLD;
    END IF;
    IF (NEW.job_id, NEW.resource_id, NEW.exclusive, NEW.guest)
            <> (OLD.job_id, OLD.resource_id, OLD.exclusive, OLD.guest)
       OR (NEW.suspended, NEW.during) <> (OLD.suspended, OLD.during)
          AND (present NOT IN ('Suspended', 'Resuming') OR NEW.during * past <> OLD.during * past
               OR NEW.suspended = upper_inf(NEW.during)) THEN
        RAISE EXCEPTION 'job % (%) holds or held resource %, which cannot change', OLD.job_id, present, OLD.resource_id
            USING ERRCODE = 'check_violation',
                HINT = 'oarhold -r, oarresume and oardel change what a job holds; the past stays';
    END IF;
    RETURN NEW;
END $$;
"""


def downgrade() -> None:
    """Take them away, with what the past has of them."""
    for name in ("resizes", "extensions"):
        op.execute(f"DROP VIEW IF EXISTS oar_all.{name}")
        op.execute(f"DROP TABLE IF EXISTS oar_past.{name}")
    for name in ("extension_of_job", "extension_of_job_changed"):
        op.execute(f"DROP TRIGGER {name} ON {_HELD}")
    op.execute("DROP FUNCTION extension_of_job")
    for name in _TABLES:
        op.drop_table(name)
    op.execute("DROP FUNCTION wrong_extension_move")
    for name in ("reclaim_at", "extension_id"):
        op.drop_column(_HELD, name)
    op.execute(_APPLICATION_MOVES)
    op.execute(_HOLDINGS)
    follow(op.get_bind())
