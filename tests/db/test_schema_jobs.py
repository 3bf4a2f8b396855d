"""What the database refuses and does by itself when jobs are changed by hand."""

from __future__ import annotations

import itertools
from typing import Any, LiteralString

import psycopg
import pytest
from psycopg.errors import (
    CheckViolation,
    ForeignKeyViolation,
    InvalidTextRepresentation,
    NotNullViolation,
    NumericValueOutOfRange,
    UniqueViolation,
)

from oarpy.model.states import ALLOWED, FINAL_STATES, PASSAGES, JobState
from tests.harness.hand_written import Connection, add_job, add_resource, insert, move, one, path_to, rewrite

pytestmark = [pytest.mark.db, pytest.mark.oldest, pytest.mark.kept]

LOG = """
SELECT previous_state, state, lower(during), upper(during) FROM job_state_logs
WHERE job_id = %s ORDER BY lower(during), upper(during) NULLS LAST
"""


@pytest.fixture(scope="module")
def with_a_job(unchanged: Connection) -> Connection:
    """Job 1, with number 1 of everything it consists of."""
    assert add_job(unchanged) == 1
    return unchanged


@pytest.mark.parametrize(
    "columns",
    [
        {"user_name": ""},
        {"project": ""},
        {"job_name": "naïve"},
        {"job_name": "two\nlines"},
        {"job_name": "n" * 201},
        {"kind": "BATCH"},
        {"array_index": 0},
        {"attempt": -1},
        {"checkpoint": "-1 second"},
        {"checkpoint_signal": 0},
        {"checkpoint_signal": 65},
        {"reservation_start": "2030-01-01"},
        {"reservation_state": "toSchedule"},
        {"reservation_start": "2030-01-01", "reservation_state": "Maybe"},
        {"walltime": "0"},
        {"walltime": "-1 hour"},
        {"ended_at": "2030-01-01"},
        {"accounted": True},
        {"started_at": "2030-01-02", "ended_at": "2030-01-01"},
        {"final_state": "Running"},
        *({"state": state.value} for state in JobState if state not in (JobState.HOLD, JobState.WAITING)),
    ],
    ids=str,
)
def test_new_job_is_checked(with_a_job: Connection, columns: dict[str, object]) -> None:
    with pytest.raises(CheckViolation):
        add_job(with_a_job, **columns)


@pytest.mark.parametrize(
    ("columns", "error"),
    [
        ({"queue_name": "nosuch"}, ForeignKeyViolation),
        ({"submission_id": 4711}, ForeignKeyViolation),
        ({"moldable_id": 4711}, ForeignKeyViolation),
        ({"resubmit_of": 4711}, ForeignKeyViolation),
        ({"state": "Sleeping"}, ForeignKeyViolation),
        ({"user_name": None}, NotNullViolation),
        ({"queue_name": None}, NotNullViolation),
        ({"array_id": None}, NotNullViolation),
        ({"state": None}, NotNullViolation),
        ({"types": None}, NotNullViolation),
        ({"attempt": 40000}, NumericValueOutOfRange),
        ({"walltime": "long"}, psycopg.errors.InvalidDatetimeFormat),
        ({"array_id": "one"}, InvalidTextRepresentation),
    ],
    ids=str,
)
def test_new_job_refers_to_what_exists(
    with_a_job: Connection, columns: dict[str, object], error: type[psycopg.Error]
) -> None:
    with pytest.raises(error):
        add_job(with_a_job, **columns)


def test_live_is_what_is_not_final(connection: Connection) -> None:
    rows = connection.execute("SELECT state FROM job_states WHERE is_live(state)").fetchall()
    assert {row[0] for row in rows} == {state.value for state in JobState if state not in FINAL_STATES}


@pytest.mark.parametrize(
    "query",
    [
        "EXPLAIN SELECT job_name FROM jobs j WHERE is_live(j.state)",
        "EXPLAIN SELECT job_name FROM jobs WHERE state = 'Running'",
        "EXPLAIN SELECT job_name FROM jobs WHERE state IN ('Hold', 'Waiting')",
    ],
)
def test_live_jobs_are_found_by_their_indexes(connection: Connection, query: LiteralString) -> None:
    """However a query says it: the partial indexes hold them alone."""
    connection.execute("SET enable_seqscan = off")
    assert "jobs_live" in "".join(row[0] for row in connection.execute(query))


def test_state_must_exist(connection: Connection) -> None:
    job = add_job(connection)
    with pytest.raises(ForeignKeyViolation):
        move(connection, job, "Sleeping")


def test_number_of_a_job_cannot_be_used_twice(connection: Connection) -> None:
    add_job(connection, job_id=77)
    with pytest.raises(UniqueViolation):
        add_job(connection, job_id=77)


def test_number_of_a_job_cannot_change(connection: Connection) -> None:
    job = add_job(connection)
    with pytest.raises(ForeignKeyViolation):
        connection.execute("UPDATE jobs SET job_id = job_id + 1000 WHERE job_id = %s", [job])


@pytest.mark.parametrize("source", JobState)
def test_every_move_is_allowed_or_refused_as_the_code_says(connection: Connection, source: JobState) -> None:
    for target in JobState:
        if source == target:
            continue
        with connection.transaction(force_rollback=True):
            job = add_job(connection)
            move(connection, job, *path_to(source))
            if (source, target) in {*ALLOWED, *PASSAGES}:
                move(connection, job, target)
                assert one(connection, "SELECT state FROM jobs WHERE job_id = %s", job) == target
            else:
                with pytest.raises(CheckViolation, match=f"job {job} cannot go from {source} to {target}"):
                    move(connection, job, target)


def test_one_forbidden_move_among_many_stops_them_all(connection: Connection) -> None:
    good, bad = add_job(connection), add_job(connection, state="Hold")
    with pytest.raises(CheckViolation, match=f"job {bad} cannot go from Hold to toLaunch"):
        connection.execute(
            "UPDATE jobs SET state = 'toLaunch', walltime = '1 hour', moldable_id = (SELECT min(moldable_id)"
            " FROM moldable_descriptions m WHERE m.submission_id = jobs.submission_id)"
        )
    assert one(connection, "SELECT state FROM jobs WHERE job_id = %s", good) == "Waiting"


@pytest.mark.parametrize(
    ("way", "change"),
    [
        ([], "state = 'toLaunch'"),
        ([], "state = 'toLaunch', walltime = '1 hour'"),
        (["toLaunch", "Launching"], "state = 'Running'"),
        (["toLaunch", "Launching", "Running"], "state = 'Finishing'"),
        (["toLaunch", "Launching", "Running", "Finishing"], "state = 'Terminated'"),
        ([], "state = 'Error'"),
        (["toLaunch", "Launching", "Running"], "ended_at = now()"),
        (["Error"], "ended_at = NULL"),
        (["toLaunch", "Launching", "Running"], "started_at = NULL"),
        (["toLaunch", "Launching", "Running"], "walltime = NULL"),
        (["toLaunch", "Launching", "Running"], "accounted = true"),
    ],
)
def test_state_needs_what_belongs_to_it(connection: Connection, way: list[str], change: str) -> None:
    job = add_job(connection)
    move(connection, job, *way)
    with pytest.raises(CheckViolation):
        connection.execute(f"UPDATE jobs SET {change} WHERE job_id = %s", [job])  # noqa: S608 - a constant of this file


def test_log_tells_the_whole_life_without_gap(connection: Connection) -> None:
    job = add_job(connection)
    way = ["Hold", "Waiting", "toLaunch", "Launching", "Running", "Suspended", "Resuming", "Running", "Finishing"]
    move(connection, job, *way, "Terminated")
    log = connection.execute(LOG, [job]).fetchall()
    assert [row[:2] for row in log] == list(itertools.pairwise([None, "Waiting", *way, "Terminated"]))
    for (_, _, _, left), (_, _, entered, _) in itertools.pairwise(log):
        assert left == entered
    assert log[-1][3] is None


@pytest.mark.parametrize(("source", "target"), sorted(PASSAGES))
def test_a_passage_leaves_the_log_of_the_moves_it_stands_for(
    connection: Connection, source: JobState, target: JobState
) -> None:
    job, other = add_job(connection, notify="exec:/bin/true"), add_job(connection)
    move(connection, job, *path_to(source), target)
    move(connection, other, *path_to(source), *PASSAGES[source, target], target)
    whole, steps = (connection.execute(LOG, [one_of]).fetchall() for one_of in (job, other))
    assert [row[:2] for row in whole] == [row[:2] for row in steps]
    for (_, _, _, left), (_, _, entered, _) in itertools.pairwise(whole):
        assert left == entered
    told = connection.execute("SELECT tag FROM notices WHERE job_id = %s ORDER BY notice_id", [job]).fetchall()
    assert told == [("RUNNING",), ("END",)]


def test_passages_are_made_of_allowed_moves() -> None:
    for (source, target), through in PASSAGES.items():
        assert set(itertools.pairwise((source, *through, target))) <= ALLOWED
        assert (source, target) not in ALLOWED


def test_log_refuses_a_second_present_and_an_unknown_move(connection: Connection) -> None:
    job = add_job(connection)
    with pytest.raises(UniqueViolation):
        insert(connection, "job_state_logs", job_id=job, state="Hold", during="[now,)")
    with pytest.raises(ForeignKeyViolation):
        insert(
            connection,
            "job_state_logs",
            job_id=job,
            previous_state="Error",
            state="Running",
            during="[2030-01-01,2030-01-02)",
        )


@pytest.mark.parametrize("end", ["Terminated", "Error"])
def test_end_releases_resources_and_settles_everything(connection: Connection, end: str) -> None:
    job, resource = add_job(connection), add_resource(connection)
    moldable = one(connection, "SELECT min(moldable_id) FROM moldable_descriptions")
    insert(connection, "gantt_predictions", job_id=job, verdict="resources_busy")
    insert(connection, "reserved_resources", job_id=job, resource_id=resource, during="[2030-01-01,2030-01-02)")
    connection.execute(
        "UPDATE gantt_predictions SET moldable_id = %s, start_time = now(), end_time = now(), resources = '{[1,2)}'",
        [moldable],
    )
    move(connection, job, "toLaunch")
    assert one(connection, "SELECT count(*) FROM gantt_predictions") == 0
    assert one(connection, "SELECT count(*) FROM reserved_resources") == 0
    insert(connection, "assigned_resources", job_id=job, resource_id=resource, during="{[now,)}")
    insert(connection, "kill_requests", job_id=job)
    move(connection, job, "Launching", "Running", "Finishing")
    assert one(connection, "SELECT upper_inf(during) FROM assigned_resources") is True
    move(connection, job, end)
    assert one(connection, "SELECT upper_inf(during) FROM assigned_resources") is False
    assert one(connection, "SELECT state FROM kill_requests") == "done"
    # and the next one may have it
    other = add_job(connection)
    insert(connection, "assigned_resources", job_id=other, resource_id=resource, during="{[now,)}")


def test_waiting_job_keeps_its_prediction_when_something_else_changes(connection: Connection) -> None:
    job = add_job(connection)
    insert(connection, "gantt_predictions", job_id=job, verdict="quota")
    connection.execute("UPDATE jobs SET message = 'patience'")
    assert one(connection, "SELECT verdict FROM gantt_predictions WHERE job_id = %s", job) == "quota"


def test_refused_reservation_gives_its_resources_back(connection: Connection) -> None:
    job, resource = add_job(connection), add_resource(connection)
    connection.execute("UPDATE jobs SET reservation_start = '2030-01-01', reservation_state = 'toSchedule'")
    insert(connection, "reserved_resources", job_id=job, resource_id=resource, during="[2030-01-01,2030-01-02)")
    move(connection, job, "toAckReservation", "Waiting")
    assert one(connection, "SELECT count(*) FROM reserved_resources") == 1
    move(connection, job, "toError")
    assert one(connection, "SELECT count(*) FROM reserved_resources") == 0


@pytest.mark.parametrize("table", ["assigned_resources", "reserved_resources"])
def test_exclusive_resource_has_one_holder_at_a_time(connection: Connection, table: str) -> None:
    first, second, resource = add_job(connection), add_job(connection), add_resource(connection)
    brackets = "{%s}" if table == "assigned_resources" else "%s"
    connection.execute("SET oarpy.rewrite_history = on")  # no job holds for a time only
    insert(connection, table, job_id=first, resource_id=resource, during=brackets % "[2030-01-01,2030-01-03)")
    with pytest.raises(psycopg.errors.ExclusionViolation):
        insert(connection, table, job_id=second, resource_id=resource, during=brackets % "[2030-01-02,)")
    insert(connection, table, job_id=second, resource_id=resource, during=brackets % "[2030-01-03,)")


def test_shared_resource_has_many_holders(connection: Connection) -> None:
    resource = add_resource(connection)
    for _ in range(3):
        job = add_job(connection, types=["timesharing=*,*"])
        insert(connection, "assigned_resources", job_id=job, resource_id=resource, during="{[now,)}", exclusive=False)
    assert one(connection, "SELECT count(*) FROM assigned_resources") == 3


@pytest.mark.parametrize("state", [state for state in JobState if state not in FINAL_STATES])
def test_live_job_cannot_be_removed(connection: Connection, state: JobState) -> None:
    job = add_job(connection)
    move(connection, job, *path_to(state))
    with pytest.raises(CheckViolation, match=f"job {job} is live"):
        connection.execute("DELETE FROM jobs WHERE job_id = %s", [job])


def test_ended_job_goes_with_all_its_rows(connection: Connection) -> None:
    job, resource = add_job(connection), add_resource(connection)
    insert(connection, "assigned_resources", job_id=job, resource_id=resource, during="{[now,)}")
    insert(connection, "event_logs", type="TEST", job_id=job)
    move(connection, job, *path_to(JobState.TERMINATED))
    rewrite(connection, "DELETE FROM jobs")
    for table in ("job_state_logs", "assigned_resources", "event_logs"):
        assert one(connection, f"SELECT count(*) FROM {table}") == 0  # noqa: S608 - names of this file


@pytest.mark.parametrize(
    ("table", "columns", "error"),
    [
        ("submissions", {"environment": "[]"}, CheckViolation),
        ("moldable_descriptions", {"submission_id": 1, "position": 5, "walltime": "0"}, CheckViolation),
        ("moldable_descriptions", {"submission_id": 1, "position": -1, "walltime": "1h"}, CheckViolation),
        ("moldable_descriptions", {"submission_id": 1, "position": 0, "walltime": "1h"}, UniqueViolation),
        ("moldable_descriptions", {"submission_id": 4711, "position": 0, "walltime": "1h"}, ForeignKeyViolation),
        ("resource_groups", {"moldable_id": 1, "position": 0}, UniqueViolation),
        ("resource_groups", {"moldable_id": 1, "position": -2}, CheckViolation),
        ("resource_descriptions", {"group_id": 1, "position": 1, "level": "core", "count": 0}, CheckViolation),
        ("resource_descriptions", {"group_id": 1, "position": 1, "level": "core", "count": -4}, CheckViolation),
        ("resource_descriptions", {"group_id": 1, "position": 1, "level": "a b", "count": 1}, CheckViolation),
        ("resource_descriptions", {"group_id": 1, "position": 0, "level": "core", "count": 1}, UniqueViolation),
        ("job_dependencies", {"job_id": 1, "required_job_id": 1}, CheckViolation),
        ("job_dependencies", {"job_id": 1, "required_job_id": 4711}, ForeignKeyViolation),
        ("job_dependencies", {"job_id": 1, "required_job_id": 1, "outcome": "perhaps"}, CheckViolation),
        ("gantt_predictions", {"job_id": 1, "verdict": "because"}, CheckViolation),
        ("gantt_predictions", {"job_id": 1, "verdict": "starts", "start_time": "2030-01-01"}, CheckViolation),
        ("gantt_predictions", {"job_id": 1, "verdict": "starts", "moldable_id": 1}, CheckViolation),
        ("kill_requests", {"job_id": 1, "reason": ""}, CheckViolation),
        ("kill_requests", {"job_id": 1, "state": "soon"}, CheckViolation),
        ("kill_requests", {"job_id": 4711}, ForeignKeyViolation),
        ("signal_requests", {"job_id": 1, "signal": 0}, CheckViolation),
        ("signal_requests", {"job_id": 1, "signal": 65}, CheckViolation),
        ("event_logs", {"type": "lower case"}, CheckViolation),
        ("event_logs", {"type": "LOST", "job_id": 4711}, ForeignKeyViolation),
        ("assigned_resources", {"job_id": 1, "resource_id": 4711, "during": "{[now,)}"}, ForeignKeyViolation),
        ("scheduling_passes", {"only_row": False}, CheckViolation),
        ("scheduling_passes", {"only_row": True}, UniqueViolation),
        ("site", {"only_row": True}, UniqueViolation),
    ],
    ids=str,
)
def test_rows_around_a_job_are_checked(
    with_a_job: Connection, table: str, columns: dict[str, Any], error: type[psycopg.Error]
) -> None:
    with pytest.raises(error):
        insert(with_a_job, table, **columns)


@pytest.mark.parametrize(
    "columns",
    [
        {"consumption": -1},
        {"consumption_type": "WASTED"},
        {"window_stop": "2026-05-01"},
    ],
    ids=str,
)
def test_accounting_is_checked(connection: Connection, columns: dict[str, object]) -> None:
    good: dict[str, object] = {
        "window_start": "2026-05-01",
        "window_stop": "2026-05-02",
        "user_name": "ann",
        "project": "p",
        "queue_name": "default",
        "consumption_type": "USED",
        "consumption": 10,
    }
    insert(connection, "accounting", **good)
    with pytest.raises(CheckViolation):
        insert(connection, "accounting", **{**good, "user_name": "bob", **columns})
    with pytest.raises(UniqueViolation):
        insert(connection, "accounting", **good)


def test_error_of_a_move_has_a_hint(connection: Connection) -> None:
    job = add_job(connection)
    with pytest.raises(CheckViolation) as caught:
        move(connection, job, "Running")
    assert caught.value.diag.message_hint == "job_transitions lists the allowed moves"


@pytest.mark.parametrize(
    ("way", "target"),
    [([], "Running"), ([], "Terminated"), ([], "Finishing"), (["toLaunch"], "Running"), (["Error"], "Waiting")],
)
def test_a_bare_change_of_state_is_refused_by_the_name_of_the_move(
    connection: Connection, way: list[str], target: str
) -> None:
    job = add_job(connection)
    move(connection, job, *way)
    source = (way or ["Waiting"])[-1]
    with pytest.raises(CheckViolation, match=f"job {job} cannot go from {source} to {target}"):
        connection.execute("UPDATE jobs SET state = %s WHERE job_id = %s", [target, job])
