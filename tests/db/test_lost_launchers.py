"""What becomes of applications whose launchers are silent, leave or come back, and of a negotiator that loses rows."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
import pytest

from tests.harness.gateway_process import TIMEOUT, GatewayProcess, gateway
from tests.harness.launchers import LauncherProcess, launcher, negotiator
from tests.harness.oarsub_cluster import build, decide, let_run, settings
from tests.harness.sample_cluster import Connection
from tests.harness.waiting import until

pytestmark = pytest.mark.db

SESSION = "SELECT pid, wait_event_type FROM pg_stat_activity WHERE application_name = 'oarpy negotiator'"


@pytest.fixture
def running(connection: Connection, cluster_environment: dict[str, str]) -> Iterator[GatewayProcess]:
    """A gateway on a small cluster; tests start negotiators."""
    build(connection)
    with gateway({**cluster_environment, **settings(), "TZ": "UTC"}, workers=2) as found:
        yield found


@pytest.fixture
def environment(cluster_environment: dict[str, str]) -> dict[str, str]:
    return {**cluster_environment, **settings()}


def subscribed(running: GatewayProcess, **fields: object) -> tuple[LauncherProcess, int]:
    """A launcher with a job, which was shown its first view."""
    one = launcher(running)
    one.say("subscribe", **fields)
    job = int(one.hear("subscribed")["job"])
    one.hear("changeNotify")
    return one, job


def asked_to_end(connection: Connection) -> dict[int, str]:
    return dict(connection.execute("SELECT job_id, reason FROM kill_requests ORDER BY job_id").fetchall())


def lost(connection: Connection, job: int) -> bool:
    row = connection.execute("SELECT lost_since IS NOT NULL FROM applications WHERE job_id = %s", [job]).fetchone()
    assert row is not None
    return bool(row[0])


def cancel(connection: Connection) -> None:
    """Let the canceller end what waits."""
    from datetime import UTC, datetime

    from oarpy.configuration import load
    from oarpy.modules.canceller import Canceller

    Canceller(load()).run_once(connection, datetime.now(UTC))


def test_who_never_asks_is_ended_and_told_so(
    running: GatewayProcess, environment: dict[str, str], connection: Connection
) -> None:
    with negotiator(environment, running, first_request_timeout=1):
        one, job = subscribed(running)
        other, asking = subscribed(running, if_lost="keep")
        other.say("request", tag=1, hosts={"all#1": 1}, walltime=60)
        until(lambda: asked_to_end(connection).get(job) == "application lost", "the end of who never asked")
        cancel(connection)
        decide(connection)
        assert one.hear("ended")["reason"] == "lost"
        assert one.process.wait(TIMEOUT) == 0
        assert asking not in asked_to_end(connection)


def test_a_lost_launcher_has_patience_to_come_back_unless_its_request_is_kept(
    running: GatewayProcess, environment: dict[str, str], connection: Connection
) -> None:
    with negotiator(environment, running, patience=1):
        first, ended = subscribed(running)
        second, kept = subscribed(running, if_lost="keep")
        third, present = subscribed(running)
        first.process.kill()
        assert second.leave() == 0
        until(lambda: asked_to_end(connection).get(ended) == "application lost", "the end of who is lost")
        assert lost(connection, kept)
        assert set(asked_to_end(connection)) == {ended}
        assert not lost(connection, present)
        again = launcher(running)
        again.say("attach", job=kept)
        assert again.hear("attached")["state"] == "Submitted"
        until(lambda: not lost(connection, kept), "somebody speaks for it again")
        again.hear("changeNotify")
        again.say("attach", job=present)
        assert again.hear("refused")["code"] == 1
        third.say("ping")
        assert third.hear("pong") == {"message": "pong"}


def test_patience_begins_anew_when_the_negotiator_was_away(
    running: GatewayProcess, environment: dict[str, str], connection: Connection
) -> None:
    with negotiator(environment, running):
        _, patient = subscribed(running)
        _, late = subscribed(running)
    connection.execute("UPDATE applications SET lost_since = now() - interval '1 hour'")
    connection.execute("UPDATE applications SET subscribed_at = now() - interval '1 hour' WHERE job_id = %s", [late])
    with negotiator(environment, running):
        until(lambda: late in asked_to_end(connection), "one look for who is late")
        assert set(asked_to_end(connection)) == {late}
        again = launcher(running)
        again.say("attach", job=patient)
        assert again.hear("attached")["job"] == patient


def test_a_line_is_heard_although_the_session_is_lost_while_it_is_stored(
    running: GatewayProcess, environment: dict[str, str], connection: Connection, dsn: str
) -> None:
    with negotiator(environment, running):
        one, job = subscribed(running)
        with locked(dsn, job):
            one.say("keep", serial=1)
            until(lambda: sessions(connection).get("Lock"), "the answer waits for the row")
            connection.execute("SELECT pg_terminate_backend(%s)", [sessions(connection)["Lock"]])
        stored = "SELECT answered FROM applications WHERE job_id = %s"
        until(lambda: connection.execute(stored, [job]).fetchone() == (1,), "the answer is stored")
        one.say("ping")
        one.hear("pong")


def test_who_attaches_to_what_was_never_shown_a_view_gets_the_first_one(
    running: GatewayProcess, environment: dict[str, str], connection: Connection
) -> None:
    made = running.run("oarsub", "--subscribe", json.dumps({"message": "subscribe"}))
    job = json.loads(made.out)["job"]
    with negotiator(environment, running):
        one = launcher(running)
        one.say("attach", job=job)
        assert one.hear("attached") == {
            "message": "attached", "job": job, "state": "Submitted", "tag": None, "serial": 0
        }  # fmt: skip
        view = one.hear("changeNotify")
        assert view["serial"] == 1
        assert "all#1" in view["changes"]


def test_who_has_seen_more_than_a_restored_database_knows_is_shown_all(
    running: GatewayProcess, environment: dict[str, str]
) -> None:
    with negotiator(environment, running):
        one = launcher(running)
        one.say("subscribe")
        job = one.hear("subscribed")["job"]
        view = one.hear("changeNotify")
        for serial, shown in ((1, False), (7, True)):
            again = launcher(running)
            again.say("attach", job=job, serial=serial)
            assert again.hear("attached")["serial"] == 1
            if shown:
                assert again.hear("changeNotify") == view
            again.say("ping")
            again.hear("pong")


def sessions(connection: Connection) -> dict[str, int]:
    """What sessions of the negotiator wait for."""
    return {waits: pid for pid, waits in connection.execute(SESSION).fetchall()}


@contextmanager
def locked(dsn: str, job: int) -> Iterator[None]:
    """Nobody changes the row of an application meanwhile."""
    with psycopg.connect(dsn) as holder:
        holder.execute("SELECT FROM applications WHERE job_id = %s FOR UPDATE", [job])
        yield
        holder.rollback()


STATE = "SELECT a.state, j.state FROM applications a JOIN jobs j USING (job_id) WHERE job_id = %s"


def chosen(running: GatewayProcess, connection: Connection, **fields: object) -> tuple[LauncherProcess, int]:
    """A launcher whose job was given its host, and is on its way there."""
    one, job = subscribed(running, **fields)
    one.say("request", tag=1, hosts={"all#1": 1}, walltime=60)
    until(lambda: connection.execute(STATE, [job]).fetchone() == ("RequestSent", "Waiting"), "the request is stored")
    decide(connection)
    assert one.hear("startNotify")["tag"] == 1
    return one, job


def test_who_is_done_before_the_job_runs_has_it_ended_when_it_does(
    running: GatewayProcess, environment: dict[str, str], connection: Connection
) -> None:
    with negotiator(environment, running):
        one, job = chosen(running, connection, if_lost="keep")
        one.say("done")
        assert one.hear("ended")["reason"] == "done"
        assert one.process.wait(TIMEOUT) == 0
        assert connection.execute(STATE, [job]).fetchone() == ("FinishSent", "toLaunch")
        assert asked_to_end(connection) == {}
    let_run(connection)
    with negotiator(environment, running):
        until(lambda: asked_to_end(connection) == {job: "application done"}, "the job is ended")


@pytest.mark.parametrize("how", ["killed", "Finishing"])
def test_the_end_is_told_as_soon_as_it_is_known(
    running: GatewayProcess, environment: dict[str, str], connection: Connection, how: str
) -> None:
    with negotiator(environment, running):
        one, job = chosen(running, connection)
        let_run(connection)
        if how == "killed":
            connection.execute("INSERT INTO kill_requests (job_id, reason) VALUES (%s, 'asked by u')", [job])
        else:
            connection.execute("UPDATE jobs SET state = 'Finishing', final_state = 'Terminated'")
        again = launcher(running)
        again.say("attach", job=job)
        assert again.hear("attached")["state"] == "FinishSent"
        assert again.hear("ended")["reason"] == ("deleted" if how == "killed" else "done")
        assert one.process.wait(TIMEOUT) in (0, 1)  # it was told, or the newer one took its place first
        decide(connection)
        found = connection.execute(STATE, [job]).fetchone()
        assert found == ("FinishSent", "Running" if how == "killed" else "Finishing")


def test_who_is_done_cannot_grow_shrink_or_be_done_again(
    running: GatewayProcess, environment: dict[str, str], connection: Connection
) -> None:
    with negotiator(environment, running):
        one, _ = chosen(running, connection)
        let_run(connection)
        more = {"message": "extend", "tag": 2, "hosts": {"all#1": 1}, "kind": "firm"}
        fewer, done = {"message": "release", "names": ["n3"]}, {"message": "done"}
        one.send("\n".join(json.dumps(line) for line in (done, more, fewer, done)))
        for word in ("extend", "release", "done"):
            answer = one.hear("refused")
            assert (answer["of"], answer["code"]) == (word, 1)
        assert one.hear("ended")["reason"] == "done"
    assert connection.execute("SELECT count(*) FROM extensions").fetchone() == (0,)


@pytest.mark.parametrize(
    ("event", "types", "reason"), [("WALLTIME", "", "walltime"), ("JOB_LOST", "", "error"), ("", "noop", "walltime")]
)
def test_the_reason_of_an_end_is_found_in_facts_not_in_names(
    running: GatewayProcess, environment: dict[str, str], connection: Connection, event: str, types: str, reason: str
) -> None:
    with negotiator(environment, running):
        words = ["-n", "walltime", *(["-t", types] if types else [])]
        one, job = chosen(running, connection, arguments=words)
        let_run(connection)
        message = "SELECT message FROM jobs WHERE job_id = %s"
        assert "walltime" in str(connection.execute(message, [job]).fetchone())
        with connection.transaction():
            if event:
                connection.execute("INSERT INTO event_logs (type, job_id) VALUES (%s, %s)", [event, job])
            final = "Error" if event else "Terminated"
            connection.execute("UPDATE jobs SET state = 'Finishing', final_state = %s WHERE job_id = %s", [final, job])
        assert one.hear("ended")["reason"] == reason


def test_a_request_that_comes_while_a_pass_decides_stays_for_the_next_one(
    running: GatewayProcess, environment: dict[str, str], connection: Connection
) -> None:
    from oarpy.negotiation.store import applications

    with negotiator(environment, running):
        one, job = subscribed(running)
        one.say("request", tag=1, hosts={"all#1": 1}, walltime=60)
        requests = "SELECT requests FROM applications WHERE job_id = %s"
        until(lambda: connection.execute(requests, [job]).fetchone() == (1,), "the request is stored")
        one.say("request", tag=2, hosts={"all#1": 1}, walltime=90)
        until(lambda: connection.execute(requests, [job]).fetchone() == (2,), "the newer request is stored")
    for number, state in ((1, "RequestSent"), (2, "Waiting")):
        applications.place(connection, {job: number})
        assert connection.execute(STATE, [job]).fetchone() == (state, "Waiting")
