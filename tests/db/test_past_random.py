"""Whatever jobs there are: moving, archiving, dropping and restoring give back the same rows, byte for byte."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeAlias

import psycopg
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from psycopg.conninfo import make_conninfo

from oarpy.client.past import past_months
from oarpy.modules.accounting import file_away
from oarpy.store.past import months, moving
from oarpy.store.schema.checks.check import check
from tests.harness.hand_written import rewrite
from tests.harness.past_jobs import MARCH, MONTH, NOW, ended, rows
from tests.harness.sample_cluster import Connection, add_job, add_nodes

pytestmark = pytest.mark.db

Past: TypeAlias = tuple[int, str, str, int, int]

texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20)
jobs = st.lists(
    st.tuples(
        st.integers(0, 150),
        st.sampled_from(["Terminated", "Error", "Waiting", "Hold"]),
        texts,
        st.integers(-3, 3),
        st.integers(-3, 3),
    ),
    min_size=1,
    max_size=12,
)


@contextmanager
def fresh_database(server: str, template: str) -> Iterator[tuple[Connection, str]]:
    """A database of its own with two nodes."""
    name = "past_at_random"
    identifier = psycopg.sql.Identifier(name)
    with psycopg.connect(server, dbname="postgres", autocommit=True) as maintenance:
        drop = psycopg.sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(identifier)
        maintenance.execute(drop)
        copy = psycopg.sql.SQL("CREATE DATABASE {} TEMPLATE {} STRATEGY file_copy")
        maintenance.execute(copy.format(identifier, psycopg.sql.Identifier(template)))
        dsn = make_conninfo(server, dbname=name)
        with psycopg.connect(dsn, autocommit=True) as connection:
            add_nodes(connection, "n1", "n2")
            yield connection, dsn
        maintenance.execute(drop)


def fill(connection: Connection, past: list[Past]) -> list[int]:
    """Add jobs that depend on, and repeat, some before them."""
    made: list[int] = []
    for day, state, text, required, repeated in past:
        over = state in ("Terminated", "Error")
        job = ended(connection, MARCH + timedelta(days=day), state) if over else add_job(connection, state)
        connection.execute("INSERT INTO event_logs (type, job_id, description) VALUES ('TOLD', %s, %s)", [job, text])
        connection.execute(
            "UPDATE submissions SET environment = jsonb_build_object('TEXT', %s::text), initial_request = %s"
            " WHERE submission_id = (SELECT submission_id FROM jobs WHERE job_id = %s)",
            [text, text, job],
        )
        if 0 < required <= len(made):
            dependency = "INSERT INTO job_dependencies (job_id, required_job_id, earliest_edge, earliest_shift)"
            connection.execute(f"{dependency} VALUES (%s, %s, 'end', '-1 day 2 hours')", [job, made[-required]])
        if 0 < repeated <= len(made):
            rewrite(connection, "UPDATE jobs SET resubmit_of = %s WHERE job_id = %s", made[-repeated], job)
        made.append(job)
    return made


@given(jobs, st.sampled_from([".sql", ".sql.gz", ".parquet"]))
@settings(
    max_examples=5,
    deadline=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)
def test_what_comes_back_is_what_went(server: str, template: str, past: list[Past], form: str) -> None:
    if form == ".parquet":
        pytest.importorskip("pyarrow", reason="pip install 'oarpy-scheduler[parquet]'")
    with fresh_database(server, template) as (connection, dsn), TemporaryDirectory() as folder:
        made = fill(connection, past)
        before = rows(connection)
        while file_away(connection, NOW, MONTH):
            assert rows(connection) == before
        files = []
        for month in months.months(connection):
            files.append(Path(folder) / f"{month.month}{form}")
            past_months.archive(connection, month.month, files[-1])
            past_months.drop(connection, month.month, unarchived=False)
        for file in files:
            assert not past_months.restore(connection, file).already
        assert rows(connection) == before
        with connection.transaction():
            moving.recall(connection, made)
        assert rows(connection) == before
        assert connection.execute("SELECT count(*) FROM jobs").fetchone() == (len(made),)
        assert check(dsn) == ()
