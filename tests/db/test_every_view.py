"""Every column of every view of ``oar_report`` and ``oar_compat``, of jobs of every kind.

What a view should show is worked out in Python from what :mod:`tests.harness.every_kind` did, and from the records of
jobs where only these know (messages, numbers of rows), never from the SQL of the view. A view or a column that
nothing here names is a failure.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator

import pytest
from psycopg.rows import dict_row
from psycopg.sql import SQL, Identifier

from oarpy.store.schema import statements
from oarpy.store.schema.checks.catalog import describe
from tests.harness import virtual_time
from tests.harness.compat_views import COMPAT
from tests.harness.every_kind import EveryKind
from tests.harness.known_lives import Row, Told, plain, text
from tests.harness.report_views import REPORT
from tests.harness.virtual_time import Clock, Database

pytestmark = [pytest.mark.db, pytest.mark.oldest]


_PROJECTS = """
    INSERT INTO projects (project, parent, hours, weight)
    VALUES ('all', NULL, NULL, 1), ('default', 'all', 1e9, 1), ('p1', 'all', 0.5, 2)
"""


@pytest.fixture(scope="module")
def told(server: str) -> Iterator[Told]:
    """Jobs of every kind twice, the first of them in the past, and some that are not over."""
    clock = Clock()
    with virtual_time.template(server) as template, virtual_time.database(server, template) as dsn:
        with clock.rules():
            world = EveryKind(Database(dsn), clock)
            world.make()
            world.file_away()
            world.make()
            world.restored()
            world.present()
            world.connection.execute(_PROJECTS)
            world.connection.execute("UPDATE submissions SET asked_units = 2")
        yield Told(world, clock.time())
        world.cluster.close()
        world.connection.close()


def shown(told: Told, schema: str, view: str) -> list[Row]:
    """The rows of a view."""
    statement = SQL("SELECT * FROM {}").format(Identifier(schema, view))
    with told.world.connection.cursor(row_factory=dict_row) as cursor:
        return [plain(row) for row in cursor.execute(statement).fetchall()]


def differences(
    told: Told, schema: str, view: str, expect: Callable[[Told], list[Row]], keys: tuple[str, ...]
) -> list[str]:
    """What is in a view and should not be, or the other way round."""
    real, expected = shown(told, schema, view), expect(told)
    (columns,) = [
        {one.name for one in found.columns} for found in describe(told.world.connection, schema) if found.name == view
    ]

    def values(row: Row) -> tuple[object, ...]:
        return tuple(getattr(row[name], "expected", row[name]) for name in keys)

    def key(row: Row) -> tuple[str, ...]:
        return tuple(text(round(value)) if isinstance(value, float) else text(value) for value in values(row))

    def order(row: Row) -> tuple[tuple[str, ...], tuple[float, ...]]:
        """By key; what happened within the same second, by its exact time."""
        return key(row), tuple(value for value in values(row) if isinstance(value, float))

    wrong = []
    kinds = {life.job: life.kind for life in told.lives}
    left = sorted(real, key=order)
    right = sorted(expected, key=order)
    if Counter(map(key, left)) != Counter(map(key, right)):
        extra = Counter(map(key, left)) - Counter(map(key, right))
        missing = Counter(map(key, right)) - Counter(map(key, left))
        wrong.append(f"{view}: too many {sorted(extra)[:5]}, not there {sorted(missing)[:5]}")
        return wrong
    for row, should in zip(left, right, strict=True):
        assert row.keys() == should.keys() == columns, f"{view}: {row.keys() ^ should.keys()}"
        wrong += [
            f"{view}.{name} of {key(row)} {kinds.get(row.get('job_id', 0))}: {row[name]!r} instead of {should[name]!r}"
            for name in row
            if row[name] != should[name]
        ]
    return wrong


def test_states_are_those_that_the_jobs_went_through(told: Told) -> None:
    logs = defaultdict(list)
    for row in told.records("job_state_logs"):
        logs[row["job_id"]].append((row["during"].lower, row["during"].upper is None, row["state"]))
    wrong = {
        life.kind: (states, life.path)
        for life in told.lives
        if (states := tuple(state for *_, state in sorted(logs[life.job]))) != life.path
    }
    assert wrong == {}, wrong
    assert any(life.filed for life in told.lives)


def test_every_view_is_looked_at() -> None:
    assert list(REPORT) == list(statements.names("views"))
    assert list(COMPAT) == list(statements.names("compat"))


@pytest.mark.parametrize("view", REPORT)
def test_report(told: Told, view: str) -> None:
    expect, keys = REPORT[view]
    if wrong := differences(told, "oar_report", view, expect, keys):
        pytest.fail("\n".join(wrong), pytrace=False)


@pytest.mark.parametrize("view", COMPAT)
def test_compat(told: Told, view: str) -> None:
    expect, keys = COMPAT[view]
    if wrong := differences(told, "oar_compat", view, expect, keys):
        pytest.fail("\n".join(wrong), pytrace=False)
