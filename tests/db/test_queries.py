"""``oarpy db query``: what it prints, and that it can only read."""

from __future__ import annotations

import json

import pytest

from oarpy.client.queries import query
from oarpy.client.rendering import json_text
from oarpy.client.session import Session
from oarpy.configuration import Configuration
from oarpy.model.errors import UsageError
from tests.harness.sample_cluster import Connection

pytestmark = [pytest.mark.db, pytest.mark.oldest, pytest.mark.kept]


@pytest.fixture
def session(connection: Connection) -> Session:
    return Session(connection, Configuration(), "ann", 1000, is_admin=True)


def test_values_keep_their_form_in_json(session: Session) -> None:
    rows = query(
        session,
        "SELECT 7 AS a, NULL AS b, ARRAY['it''s', 'c'] AS d, '{\"e\": [1, null]}'::jsonb AS f, 1.50 AS g, '50%s' AS h,"
        " ARRAY[date '2026-05-01'] AS i",
    )
    expected = {"a": 7, "b": None, "d": ["it's", "c"], "f": {"e": [1, None]}, "g": "1.50", "h": "50%s"}
    assert json.loads(json_text(rows.data())) == [{**expected, "i": ["2026-05-01"]}]
    row = rows.text().splitlines()[2]
    assert row.replace("  ", "").endswith("""["it's", "c"] {"e": [1, null]} 1.50 50%s ["2026-05-01"]""")


@pytest.mark.parametrize(
    "statement",
    [
        "COMMIT; CREATE TABLE made (a integer); SELECT 1",
        "SELECT 1; COMMIT; CREATE TABLE made (a integer)",
        "CREATE TABLE made (a integer)",
        "SET TRANSACTION READ WRITE",
        "COMMIT",
        "COPY jobs TO STDOUT",
        "-- all\n/* of */ copy jobs FROM STDIN",
        ";COPY jobs TO STDOUT",
        "/* -- /* */ -- */ copy jobs TO STDOUT",
        "-- all\rCOPY jobs TO STDOUT",
        "COPY (SELECT 1) TO STDOUT WITH (FORMAT csv)",
        "",
    ],
)
def test_nothing_but_one_statement_that_reads(session: Session, statement: str) -> None:
    with pytest.raises(UsageError):
        query(session, statement)
    assert query(session, "SELECT to_regclass('made')").values == [(None,)]


def test_a_function_cannot_make_the_transaction_write(session: Session) -> None:
    with pytest.raises(UsageError):
        query(session, "SELECT set_config('transaction_read_only', 'off', false)")
