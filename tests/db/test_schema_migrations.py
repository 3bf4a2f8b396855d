"""A database comes to the schema of this version, from nothing or from an older one, and goes back."""

from __future__ import annotations

import gzip
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeAlias

import psycopg
import psycopg.sql
import pytest

from oarpy.model.errors import OarpyError
from oarpy.model.reasons import words
from oarpy.modules.accounting import account
from oarpy.store.passes import verdict_history
from oarpy.store.past.dependent_views import DependentViews
from oarpy.store.past.structure import follow as follow_past
from oarpy.store.schema import migrations
from oarpy.store.schema.checks.catalog import describe
from oarpy.store.schema.checks.check import check
from oarpy.store.schema.platform import resources
from oarpy.wire.jobs import JobKey
from oarpy.wire.messages import Started, Suspended
from tests.campaigns.dump_shapes import lines
from tests.harness.fake_transport import FakeJob
from tests.harness.small_cluster import SmallCluster

pytestmark = pytest.mark.db
Connection: TypeAlias = "psycopg.Connection[tuple[Any, ...]]"

BASELINE, OLDEST = migrations.baseline(), "0020"
NEXT = """
from alembic import op

revision = "next"
down_revision = "{head}"


def upgrade():
    op.execute("CREATE INDEX jobs_message ON jobs (message)")
    op.execute("UPDATE jobs SET priority_of_mine = 1" if {broken} else "SELECT")


def downgrade():
    op.execute("DROP INDEX jobs_message")
"""
"""A revision that comes after all others; an index is nothing that ``check`` minds."""

FUNCTIONS = """
SELECT p.proname, pg_get_functiondef(p.oid), coalesce(obj_description(p.oid, 'pg_proc'), '') FROM pg_proc p
WHERE p.pronamespace = 'public'::regnamespace AND p.prolang <> 13 AND p.probin IS NULL ORDER BY 1
"""
TRIGGERS = """
SELECT t.tgrelid::regclass::text, pg_get_triggerdef(t.oid), t.tgenabled FROM pg_trigger t
WHERE NOT t.tgisinternal ORDER BY 1, 2
"""
VIEWS = """
SELECT schemaname, viewname, definition FROM pg_views
WHERE schemaname IN ('oar_report', 'oar_compat') AND (schemaname, viewname) <> ('oar_compat', 'resources') ORDER BY 1, 2
"""
"""All but the one that has the properties of the site."""


def schema(dsn: str) -> tuple[object, ...]:
    """All that the server knows of the schema, without the order of tables and the properties of the site."""
    with psycopg.connect(dsn) as connection:
        tables = {relation.name: relation for relation in describe(connection)}
        ours = tuple(column for column in tables["resources"].columns if column.name in resources.columns)
        tables["resources"] = replace(tables["resources"], columns=ours)
        views = {relation.name: relation for relation in describe(connection, "oar_report")}
        compat = connection.execute("SELECT to_regnamespace('oar_compat')").fetchone() != (None,)
        views |= {f"oar_compat.{one.name}": one for one in (describe(connection, "oar_compat") if compat else ())}
        views.pop("oar_compat.resources", None)
        return tables, views, *(connection.execute(query).fetchall() for query in (FUNCTIONS, TRIGGERS, VIEWS))


def without_brackets(dsn: str) -> list[list[str]]:
    """The schema, whose conditions have fewer brackets once the server has written and read them."""
    found = []
    for part in schema(dsn):
        assert isinstance(part, dict | list)
        entries = part.items() if isinstance(part, dict) else part
        found.append(sorted(repr(one).replace("(", "").replace(")", "") for one in entries))
    return found


def indexes(dsn: str) -> set[str]:
    with psycopg.connect(dsn) as connection:
        return {name for relation in describe(connection) for name, _ in relation.indexes}


def rows(dsn: str) -> dict[str, object]:
    """How many rows the tables of facts have."""
    with psycopg.connect(dsn) as connection:
        return {
            table: connection.execute(
                psycopg.sql.SQL("SELECT count(*) FROM {}").format(psycopg.sql.Identifier(table))
            ).fetchall()
            for table in ("jobs", "submissions", "assigned_resources", "resources", "nodes", "accounting", "quotas")
        }


def dumped(name: str) -> bytes:
    """The statements of a dump that is kept here."""
    return gzip.decompress(Path(__file__).with_name(f"{name}.sql.gz").read_bytes())


@pytest.fixture
def older_dsn(empty_dsn: str) -> str:
    """A database of a cluster at revision 0020: jobs over, running, suspended, waiting, held and reserved.

    ``pg_dump --inserts --no-owner --no-privileges`` wrote it. It must stay as it is: such clusters exist.
    """
    with psycopg.connect(empty_dsn) as connection:
        connection.execute(dumped("cluster_at_0020"))
    return empty_dsn


@pytest.fixture
def live_dsn(empty_dsn: str) -> str:
    """A database of commit 3996a006, at revision 0064, with live jobs of all kinds on real nodes.

    Their user, directories, environments and incarnations of nodes have other names since.
    """
    with psycopg.connect(empty_dsn) as connection:
        connection.execute(dumped("cluster_at_0064"))
    return empty_dsn


def test_a_live_cluster_comes_to_the_schema_of_a_new_one(live_dsn: str, dsn: str) -> None:
    counted = rows(live_dsn)
    assert migrations.upgrade(live_dsn)[0] == BASELINE
    assert (check(live_dsn), rows(live_dsn)) == ((), counted)
    assert without_brackets(live_dsn) == without_brackets(dsn)


def test_both_ways_lead_to_the_same_rows(empty_dsn: str) -> None:
    """The dump at revision 0076 is what revision after revision had made of the one at 0064."""
    found = []
    for dump in ("cluster_at_0064", "cluster_at_0076"):
        with psycopg.connect(empty_dsn) as connection:
            connection.execute(EMPTIED)
            connection.execute(dumped(dump))
        migrations.upgrade(empty_dsn)
        found.append(lines(empty_dsn))
    assert found[0] == found[1]


EMPTIED = "DROP SCHEMA IF EXISTS public, oar_past, oar_all, oar_report, oar_compat CASCADE; CREATE SCHEMA public"
OF_THE_SITE = """
    CREATE VIEW ours AS SELECT job_id, user_name FROM oar_report.jobs;
    COMMENT ON VIEW ours IS 'of the site';
    CREATE TABLE teams (name text, job bigint REFERENCES jobs (job_id));
    INSERT INTO teams VALUES ('red', 3);
    CREATE INDEX jobs_by_project ON jobs (project);
    ALTER TABLE resources ADD COLUMN rack integer DEFAULT 7;
    INSERT INTO resource_properties VALUES ('rack', 'integer');
    CREATE FUNCTION noted() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
    CREATE TRIGGER noted AFTER INSERT ON jobs FOR EACH ROW EXECUTE FUNCTION noted()
"""


def test_what_is_the_site_s_stays(live_dsn: str) -> None:
    with psycopg.connect(live_dsn) as connection:
        connection.execute(OF_THE_SITE)
    migrations.upgrade(live_dsn)
    assert check(live_dsn) == ()
    assert "jobs_by_project" in indexes(live_dsn)
    with psycopg.connect(live_dsn) as connection:
        ours = connection.execute("SELECT count(*), obj_description('ours'::regclass) FROM ours").fetchone()
        kept = connection.execute(
            "SELECT name, rack, user_name FROM teams, resources, jobs WHERE job = job_id"
        ).fetchone()
        triggers = connection.execute(
            "SELECT tgrelid::regclass::text FROM pg_trigger WHERE tgname = 'noted'"
        ).fetchall()
    assert (ours, kept, triggers) == ((16, "of the site"), ("red", 7, "ann"), [("jobs",)])


@pytest.mark.parametrize("dump", ["cluster_at_0064", "cluster_at_0076"])
def test_who_could_read_a_view_still_can(empty_dsn: str, dump: str) -> None:
    """A view that is made anew, once or again, by a revision or after the tables, is read by the same roles."""
    readers = """
        SELECT c.oid::regclass::text FROM pg_class c
        WHERE c.relkind = 'v' AND has_table_privilege('pg_monitor', c.oid, 'SELECT')
    """
    with psycopg.connect(empty_dsn) as connection:
        connection.execute(dumped(dump))
        # a role that every server has; roles belong to the whole server, which other tests share
        for name in ("oar_report", "oar_all", "oar_compat"):
            connection.execute(f"GRANT SELECT ON ALL TABLES IN SCHEMA {name} TO pg_monitor")
        before = {row for row in connection.execute(readers).fetchall() if row[0].startswith("oar_")}
    migrations.upgrade(empty_dsn)
    with psycopg.connect(empty_dsn) as connection:
        assert before <= set(connection.execute(readers).fetchall())
    migrations.downgrade(empty_dsn, BASELINE)
    with psycopg.connect(empty_dsn) as connection:
        assert before <= set(connection.execute(readers).fetchall())


OF_AN_ANALYST = """
    CREATE SCHEMA ana;
    CREATE VIEW ana.v WITH (security_barrier) AS SELECT job_id, user_name FROM oar_report.jobs;
    GRANT SELECT (job_id) ON ana.v, oar_report.jobs TO pg_monitor;
    ALTER VIEW ana.v OWNER TO pg_read_all_data
"""
RIGHTS = """
    SELECT reloptions, pg_get_userbyid(relowner), has_column_privilege('pg_monitor', oid, 'job_id', 'SELECT'),
        has_column_privilege('pg_monitor', oid, 'user_name', 'SELECT'), has_column_privilege('pg_monitor',
        'oar_report.jobs', 'job_id', 'SELECT'), has_table_privilege('pg_monitor', 'oar_report.jobs', 'SELECT')
    FROM pg_class WHERE oid = 'ana.v'::regclass
"""


def test_a_view_of_the_site_keeps_owner_options_and_readers_of_columns(live_dsn: str) -> None:
    with psycopg.connect(live_dsn) as connection:
        connection.execute(OF_AN_ANALYST)
    migrations.upgrade(live_dsn)
    with psycopg.connect(live_dsn) as connection:
        kept = connection.execute(RIGHTS).fetchone()
    assert kept == (["security_barrier=true"], "pg_read_all_data", True, False, True, False)


HANGING = """
    CREATE SCHEMA ana;
    CREATE TABLE ana.wishes (job bigint, wish text);
    CREATE VIEW ana.v AS SELECT job_id, user_name, project AS "Project %" FROM oar_report.jobs;
    CREATE VIEW ana.counted AS SELECT user_name, count(*) AS jobs FROM ana.v GROUP BY user_name;
    CREATE FUNCTION ana.wished() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN INSERT INTO ana.wishes VALUES (NEW.job_id, NEW."Project %"); RETURN NEW; END $$;
    CREATE TRIGGER wished INSTEAD OF INSERT ON ana.v FOR EACH ROW EXECUTE FUNCTION ana.wished();
    COMMENT ON TRIGGER wished ON ana.v IS 'wishes, 100 %';
    ALTER VIEW ana.v ALTER COLUMN "Project %" SET DEFAULT 'of nobody, 7 %';
    CREATE RULE forgotten AS ON DELETE TO ana.v DO INSTEAD
        DELETE FROM ana.wishes USING ana.counted WHERE job = OLD.job_id AND counted.user_name = OLD.user_name;
    COMMENT ON RULE forgotten ON ana.v IS 'wishes go';
    GRANT SELECT, INSERT, DELETE ON ana.v, oar_report.jobs TO pg_monitor;
    GRANT SELECT, UPDATE (user_name) ON ana.v, oar_report.jobs TO pg_signal_backend WITH GRANT OPTION;
    GRANT UPDATE (job_id) ON ana.v TO PUBLIC;
    ALTER DEFAULT PRIVILEGES IN SCHEMA ana GRANT TRUNCATE ON TABLES TO pg_checkpoint;
    REVOKE TRIGGER ON ana.v FROM CURRENT_USER
"""
HUNG = """
    SELECT array(SELECT unnest(relacl)::text ORDER BY 1), (
               SELECT array_agg(row(attname, array(SELECT unnest(attacl)::text ORDER BY 1))::text ORDER BY attname)
               FROM pg_attribute WHERE attrelid = c.oid AND attacl IS NOT NULL), (
               SELECT array_agg(row(pg_get_triggerdef(t.oid), obj_description(t.oid, 'pg_trigger'))::text)
               FROM pg_trigger t WHERE tgrelid = c.oid), (
               SELECT array_agg(row(pg_get_ruledef(r.oid), obj_description(r.oid, 'pg_rewrite'))::text)
               FROM pg_rewrite r WHERE ev_class = c.oid AND rulename <> '_RETURN'),
           (SELECT array_agg(pg_get_expr(adbin, adrelid)) FROM pg_attrdef WHERE adrelid = c.oid)
    FROM pg_class c WHERE c.oid IN ('ana.v'::regclass, 'oar_report.jobs'::regclass) ORDER BY relname
"""


def hung(dsn: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(dsn) as connection:
        return connection.execute(HUNG).fetchall()


@pytest.mark.oldest
@pytest.mark.parametrize("dump", ["cluster_at_0064", "cluster_at_0076"])
def test_what_hangs_on_a_view_of_the_site_stays(empty_dsn: str, dump: str) -> None:
    """Triggers, rules, defaults, comments, and all rights, on the way up and on the way back."""
    with psycopg.connect(empty_dsn) as connection:
        connection.execute(dumped(dump))
        connection.execute(HANGING)
    before = hung(empty_dsn)
    assert all(before[1])
    migrations.upgrade(empty_dsn)
    assert hung(empty_dsn) == before
    migrations.downgrade(empty_dsn, BASELINE)
    assert hung(empty_dsn) == before
    with psycopg.connect(empty_dsn) as connection:
        connection.execute("INSERT INTO ana.v (job_id) VALUES (3)")
        assert connection.execute("SELECT * FROM ana.wishes").fetchall() == [(3, "of nobody, 7 %")]
        connection.execute("DELETE FROM ana.v WHERE job_id = 3")
        assert connection.execute("SELECT * FROM ana.wishes").fetchall() == []


@pytest.mark.oldest
def test_a_view_of_the_site_that_would_be_lost_is_named(dsn: str) -> None:
    """It reads what a revision takes away; the trigger on it, or it as a whole, would go without a word."""
    with psycopg.connect(dsn) as connection:
        connection.execute("ALTER TABLE jobs ADD COLUMN mood text")
        follow_past(connection)
        connection.execute("CREATE VIEW v AS SELECT mood FROM oar_all.jobs")
        views = DependentViews(connection)
        views.put_away()
        connection.execute("ALTER TABLE jobs DROP COLUMN mood")
        with pytest.raises(OarpyError, match=r'view public\.v cannot be made again: column .*mood"? does not exist'):
            views.put_back()


@pytest.mark.parametrize(
    ("statement", "named"),
    [
        ("CREATE MATERIALIZED VIEW mv AS SELECT job_id FROM oar_report.jobs", "materialized view mv depends on"),
        (
            "CREATE FUNCTION f() RETURNS SETOF oar_report.jobs LANGUAGE sql AS 'SELECT * FROM oar_report.jobs'",
            r"function f\(\) depends on type",
        ),
        ("CREATE VIEW v AS SELECT during FROM assigned_resources", "view v depends on column"),
        ("CREATE SCHEMA oarpy_wanted", "schema oarpy_wanted is there"),
    ],
)
def test_what_stands_in_the_way_is_named_and_nothing_changed(older_dsn: str, statement: str, named: str) -> None:
    with psycopg.connect(older_dsn) as connection:
        connection.execute(statement)
    with pytest.raises(OarpyError, match=named) as refused:
        migrations.upgrade(older_dsn)
    assert refused.value.hint == "drop it first, and make it again afterwards"
    assert migrations.current(older_dsn) == OLDEST


def test_a_view_of_another_role_is_named(dsn: str) -> None:
    with psycopg.connect(dsn) as connection:
        connection.execute("CREATE VIEW v AS SELECT * FROM oar_compat.moldable_job_descriptions")
        connection.execute("CREATE VIEW last AS SELECT * FROM v")
        connection.execute("ALTER VIEW last OWNER TO pg_read_all_data; SET LOCAL ROLE pg_monitor")
        with pytest.raises(
            OarpyError, match=r"view public\.last must be made anew, and belongs to role pg_read_all_data"
        ):
            DependentViews(connection).put_away()


def test_columns_of_the_past_are_described_as_the_live_ones(live_dsn: str) -> None:
    migrations.upgrade(live_dsn)
    with psycopg.connect(live_dsn) as connection:
        live = {relation.name: relation for relation in describe(connection)}
        past = {relation.name: relation for relation in describe(connection, "oar_past") if relation.name in live}
    assert {(table, column.name, column.comment) for table in past for column in live[table].columns} <= {
        (table, column.name, column.comment) for table in past for column in past[table].columns
    }


LIVE = {
    3: ("node1", "Running"),
    4: ("node2", "Suspended"),
    5: ("node3", "Running"),
    6: ("node3", "Running"),
    9: ("node4", "Running"),
    10: ("node5", "Running"),
}
"""First node and state of the jobs on nodes: 3 was suspended once, 5 and 6 are an array, 9 negotiates, 10 gives way."""

WAITING = {11: "Waiting", 12: "Waiting", 13: "Waiting", 14: "Hold", 15: "Waiting"}
"""A reservation, two that need nearly all nodes, one that is held, one that waits for the end of job 5."""


@pytest.fixture
def live(live_dsn: str) -> Iterator[SmallCluster]:
    """The upgraded cluster, with its jobs on its nodes; they have time left, and the reservation is far."""
    with psycopg.connect(live_dsn) as connection:
        connection.execute("UPDATE jobs SET walltime = '20 years' WHERE state IN ('Running', 'Suspended')")
        connection.execute("UPDATE jobs SET reservation_start = now() + interval '25 years' WHERE job_id = 11")
        started: dict[int, float] = dict(
            connection.execute("SELECT job_id, EXTRACT(epoch FROM started_at) FROM jobs").fetchall()
        )
    migrations.upgrade(live_dsn)
    with psycopg.connect(live_dsn, autocommit=True) as connection:
        cluster = SmallCluster(connection)
        for job, (node, state) in LIVE.items():
            key = JobKey(job, 1)
            stopped = Suspended(key, float(started[job]) + 1) if state == "Suspended" else None
            spec = FakeJob(None, Started(key, float(started[job])), suspended=stopped)
            cluster.node(node).jobs[key] = spec
        yield cluster
        cluster.close()


def states(cluster: SmallCluster, jobs: Iterable[int]) -> dict[int, str]:
    return {job: cluster.state(job) for job in jobs}


def test_live_jobs_go_on_after_the_upgrade(live: SmallCluster, live_dsn: str) -> None:
    """They run, stay suspended and wait as before; those that end are accounted, and others have their place."""
    live.settle()
    assert states(live, (*LIVE, *WAITING)) == {job: state for job, (_, state) in LIVE.items()} | WAITING
    (host,) = set(live.hosts(16))
    assert live.state(16) == "Running"
    live.nodes.finish("node3", JobKey(5, 1))
    live.sql("UPDATE jobs SET state = 'Resuming' WHERE job_id = 4")
    live.nodes.finish(host, JobKey(16, live.job(16, "attempt")))
    live.settle()
    assert states(live, (4, 5, 6, 15)) == {4: "Running", 5: "Terminated", 6: "Running", 15: "Terminated"}
    assert live.hosts(15) == ["node3"]
    account(live.connection, 86400)
    assert live.sql("SELECT job_id FROM jobs WHERE ended_at IS NOT NULL AND NOT accounted") == []
    assert check(live_dsn) == ()


@pytest.fixture
def next_revision(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of a later revision, which is found."""
    path = tmp_path / "next.py"
    path.write_text(NEXT.format(head=migrations.head(), broken=False), encoding="utf-8")
    monkeypatch.setattr(migrations, "VERSIONS", (*migrations.VERSIONS, tmp_path))
    return path


def test_a_cluster_of_an_older_version_comes_to_the_schema_of_a_new_one(older_dsn: str, dsn: str) -> None:
    """Whatever changes the description of the schema needs a revision that changes older databases."""
    assert migrations.upgrade(older_dsn)[0] == BASELINE
    assert migrations.current(older_dsn) == migrations.head()
    assert check(older_dsn) == ()
    assert without_brackets(older_dsn) == without_brackets(dsn)


def test_jobs_of_an_older_version_go_on(older_dsn: str) -> None:
    migrations.upgrade(older_dsn)
    with psycopg.connect(older_dsn) as connection:
        connection.execute("UPDATE jobs SET state = 'Finishing', final_state = 'Error' WHERE job_id = 14")
        connection.execute(
            "UPDATE jobs SET state = 'Terminated', left_nothing = true, ended_at = now() WHERE job_id = 13"
        )
        states = connection.execute("SELECT state, count(*) FROM jobs GROUP BY state").fetchall()
        held = connection.execute("SELECT sum(held) FROM consumable_capacities").fetchone()
    expected = {"Terminated": 9, "Running": 1, "Waiting": 2, "Hold": 1, "Finishing": 1, "Error": 1}
    assert (dict(states), held) == (expected, (0,))
    assert check(older_dsn) == ()


@pytest.mark.timeout(900)
def test_every_revision_goes_up_and_down_and_up_again(
    live_dsn: str, copied: Callable[[str], AbstractContextManager[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A revision after the baseline has both ways, on a database full of rows.

    The database goes down by one revision after the other; from each, a copy comes up by one. Where that is not what it
    was before, to the last letter of a function, the copy comes up to the newest.
    """
    migrations.upgrade(live_dsn)
    newest, counted = schema(live_dsn), rows(live_dsn)
    undone = migrations.downgrade(live_dsn, BASELINE)
    assert (migrations.current(live_dsn), rows(live_dsn)) == (BASELINE, counted)
    assert migrations.upgrade(live_dsn) == tuple(reversed(undone))
    assert schema(live_dsn) == newest
    before = newest
    for later, revision in pairwise((*undone, BASELINE)):
        assert migrations.downgrade(live_dsn, revision) == (later,)
        with psycopg.connect(live_dsn, autocommit=True) as connection:  # what triggers read is there at each revision
            connection.execute("UPDATE resources SET state = state")
            connection.execute("UPDATE jobs SET message = message WHERE ended_at IS NULL")
            connection.execute("UPDATE assigned_resources SET guest = guest WHERE upper_inf(during)")
        with copied(live_dsn) as copy:
            with monkeypatch.context() as patched:
                patched.setattr(migrations, "head", partial(str, later))
                assert migrations.upgrade(copy) == (later,)
            if schema(copy) != before:
                migrations.upgrade(copy)
                assert schema(copy) == newest, f"after {revision} and up again"
        before = schema(live_dsn)
    migrations.upgrade(live_dsn)
    assert (schema(live_dsn), check(live_dsn)) == (newest, ())


@pytest.mark.parametrize("revision", [OLDEST, "0064"])
def test_nothing_goes_back_from_the_baseline(dsn: str, revision: str) -> None:
    with pytest.raises(OarpyError, match=f"the schema does not go back to revisions before {BASELINE}") as refused:
        migrations.downgrade(dsn, revision)
    assert refused.value.hint == "restore a dump that was made before the upgrade"
    assert migrations.current(dsn) == migrations.head()


@pytest.mark.parametrize("revision", ["base", "0019", "nonsense", "", "-1"])
def test_a_database_does_not_go_back_to_what_it_never_was(dsn: str, revision: str) -> None:
    with pytest.raises(OarpyError, match="cannot go back to revision") as refused:
        migrations.downgrade(dsn, revision)
    assert refused.value.hint is not None
    assert BASELINE in refused.value.hint
    assert migrations.current(dsn) == migrations.head()


WRONG = """
UPDATE jobs SET types = '{NULL,noop}', walltime = '200 years', message = 'wrong' WHERE state = 'Running';
UPDATE jobs SET types = '{{a,b},{c,d}}', reservation_offer = 'infinity', started_at = now() WHERE state = 'Hold';
UPDATE moldable_descriptions SET walltime = '200 years';
UPDATE event_logs SET at = '-infinity', hosts = '{NULL,a}';
UPDATE scheduling_passes SET seconds = 'NaN';
UPDATE accounting SET consumption = 'NaN';
ALTER TABLE resources ADD COLUMN bought timestamptz DEFAULT 'infinity';
INSERT INTO resource_properties VALUES ('bought', 'timestamptz');
DELETE FROM scheduling_passes;
"""


def test_wrong_rows_of_an_older_version_are_mended(older_dsn: str) -> None:
    with psycopg.connect(older_dsn) as connection:
        connection.execute(WRONG)
    migrations.upgrade(older_dsn)
    assert check(older_dsn) == ()
    with psycopg.connect(older_dsn) as connection:
        types = connection.execute("SELECT state, types FROM jobs WHERE state IN ('Running', 'Hold')").fetchall()
        assert dict(types) == {"Hold": ["a", "b", "c", "d"], "Running": ["noop"]}
        told = connection.execute("SELECT DISTINCT description FROM event_logs WHERE type = 'ROW_MENDED'").fetchall()
        assert {"jobs.types was {{a,b},{c,d}}", "jobs.walltime was 200 years"} <= {text for (text,) in told}


SUSPENDED_BEFORE = """
    UPDATE job_state_logs SET during = tstzrange(lower(during), '2026-11-22 11:44:12+00')
        WHERE job_id = 13 AND upper_inf(during);
    INSERT INTO job_state_logs VALUES
        (13, 'Suspended', 'Running', '["2026-11-22 11:44:12+00","2026-11-22 11:44:13+00")'),
        (13, 'Resuming', 'Suspended', '["2026-11-22 11:44:13+00","2026-11-22 11:44:14+00")'),
        (13, 'Running', 'Resuming', '["2026-11-22 11:44:14+00",)');
    UPDATE assigned_resources SET during = '["2026-11-22 11:44:13.5+00",)' WHERE job_id = 13
"""
WRONG_ROWS = """
    UPDATE jobs SET array_index = 1 WHERE array_id = 3;
    UPDATE jobs SET moldable_id = 1 WHERE job_id = 5;
    INSERT INTO assigned_resources VALUES (2, 4, 'empty'), (2, 3, '(,2020-01-01)');
"""


def test_what_was_held_comes_back_and_wrong_rows_are_mended(older_dsn: str) -> None:
    """The log of states tells when suspended jobs had their resources."""
    with psycopg.connect(older_dsn) as connection:
        connection.execute(SUSPENDED_BEFORE + ";" + WRONG_ROWS)
    migrations.upgrade(older_dsn)
    with psycopg.connect(older_dsn) as connection:
        connection.execute("SET timezone = 'UTC'")
        held = connection.execute(
            "SELECT during::text, suspended FROM assigned_resources WHERE job_id IN (13, 14) ORDER BY job_id"
        ).fetchall()
        places = connection.execute("SELECT array_index FROM jobs WHERE array_id = 3 ORDER BY job_id").fetchall()
        strange = connection.execute(
            "SELECT count(*) FROM jobs j JOIN moldable_descriptions m USING (moldable_id)"
            " WHERE m.submission_id <> j.submission_id"
        ).fetchone()
        kept = connection.execute("SELECT resource_id FROM assigned_resources WHERE job_id = 2 ORDER BY 1").fetchall()
    (went_on, _), (stands, away) = held
    assert [part[10:24] for part in went_on.split('"')[1::2]] == [" 11:44:09.8800", " 11:44:12+00", " 11:44:14+00"]
    assert (stands.split('"')[3], away) == ("2026-11-22 11:44:15.036858+00", True)
    assert (places, strange, kept) == ([(1,), (2,), (3,), (4,)], (0,), [(1,), (3,)])
    assert check(older_dsn) == ()


def test_rows_that_nobody_can_mend_are_named(older_dsn: str) -> None:
    with psycopg.connect(older_dsn) as connection:
        connection.execute("INSERT INTO assigned_resources VALUES (12, 1, '[2026-11-22 11:44:09+00,)', false)")
    with pytest.raises(OarpyError, match="had a resource at one time: jobs 8 and 12 resource 1"):
        migrations.upgrade(older_dsn)
    assert migrations.current(older_dsn) == OLDEST


def test_what_was_said_of_jobs_that_wait_is_kept_in_words(older_dsn: str) -> None:
    migrations.upgrade(older_dsn)
    migrations.downgrade(older_dsn, "0076")
    with psycopg.connect(older_dsn, autocommit=True) as connection:
        connection.execute(
            "INSERT INTO verdict_changes (job_id, at, verdict, reason, queue_name, queue_priority, queue_order)"
            " VALUES (1, now(), 'held', 'held, as it was said', 'default', 1, 'fifo')"
        )
    migrations.upgrade(older_dsn)
    with psycopg.connect(older_dsn) as connection:
        told = verdict_history.verdict_at(connection, [1], time.time() + 60)[1]
        assert (told.reason, str(told.reason)) == (words("held, as it was said"), "held, as it was said")
    assert check(older_dsn) == ()


def test_one_revision_up_and_down(dsn: str, next_revision: Path) -> None:
    head = migrations.current(dsn)
    assert check(dsn) == (f"the schema is at revision {head}, this oarpy needs next: run 'oarpy db upgrade'",)
    before = schema(dsn)
    assert migrations.upgrade(dsn) == ("next",)
    assert (migrations.current(dsn), check(dsn)) == ("next", ())
    assert "jobs_message" in indexes(dsn)
    assert migrations.upgrade(dsn) == ()
    assert migrations.downgrade(dsn, str(head)) == ("next",)
    assert (migrations.current(dsn), schema(dsn)) == (head, before)
    assert migrations.upgrade(dsn) == ("next",)
    assert "jobs_message" in indexes(dsn)


def test_a_new_database_is_made_as_it_is_now(empty_dsn: str, next_revision: Path) -> None:
    """Later revisions are for older databases: what they add is in the description that a new one is made from."""
    applied = migrations.upgrade(empty_dsn)
    assert (applied[0], applied[-1]) == (BASELINE, "next")
    assert (migrations.current(empty_dsn), check(empty_dsn)) == ("next", ())
    assert "jobs_message" not in indexes(empty_dsn)


def test_later_revisions_change_the_rows_of_older_databases(older_dsn: str, next_revision: Path) -> None:
    """The description has what they change in tables; what they do to rows is done, in ``rows``."""
    more = next_revision.read_text() + '\ndef rows(connection):\n    connection.exec_driver_sql("{}")\n'.format(
        "UPDATE queues SET priority = 7 WHERE queue_name = 'default'"
    )
    next_revision.write_text(more, encoding="utf-8")
    applied = migrations.upgrade(older_dsn)
    assert (applied[0], applied[-1]) == (BASELINE, "next")
    assert "jobs_message" not in indexes(older_dsn)
    with psycopg.connect(older_dsn) as connection:
        assert connection.execute("SELECT priority FROM queues WHERE queue_name = 'default'").fetchone() == (7,)


def test_failed_revision_changes_nothing(dsn: str, next_revision: Path) -> None:
    next_revision.write_text(next_revision.read_text().replace("if False", "if True"), encoding="utf-8")
    before = migrations.current(dsn)
    with pytest.raises(Exception, match="priority_of_mine"):
        migrations.upgrade(dsn)
    assert migrations.current(dsn) == before
    assert "jobs_message" not in indexes(dsn)


def test_upgrade_twice_does_nothing_the_second_time(empty_dsn: str) -> None:
    migrations.upgrade(empty_dsn)
    assert migrations.upgrade(empty_dsn) == ()


def test_concurrent_upgrades_take_turns(empty_dsn: str) -> None:
    code = "import sys; from oarpy.store.schema import migrations; print(*migrations.upgrade(sys.argv[1]))"
    command = [sys.executable, "-c", code, empty_dsn]

    def run(_: int) -> str:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    with ThreadPoolExecutor(3) as pool:
        applied = [output for output in pool.map(run, range(3)) if output]
    assert len(applied) == 1
    assert check(empty_dsn) == ()


def test_failed_upgrade_leaves_nothing(empty_dsn: str) -> None:
    with psycopg.connect(empty_dsn) as connection:
        connection.execute("CREATE TABLE module_runs (module text)")
    with pytest.raises(Exception, match="already exists"):
        migrations.upgrade(empty_dsn)
    assert migrations.current(empty_dsn) is None
    with psycopg.connect(empty_dsn) as connection:
        assert [relation.name for relation in describe(connection)] == ["module_runs"]


def test_revision_of_another_version_is_left_alone(dsn: str) -> None:
    with psycopg.connect(dsn) as connection:
        connection.execute("UPDATE alembic_version SET version_num = '0007'")
    with pytest.raises(OarpyError, match="revision 0007, which this oarpy does not know"):
        migrations.upgrade(dsn)
    assert migrations.current(dsn) == "0007"
