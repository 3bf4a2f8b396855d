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


def test_who_is_done_before_the_job_runs_has_it_ended_when_it_does(
    running: GatewayProcess, environment: dict[str, str], connection: Connection
) -> None:
    with negotiator(environment, running):
        one, job = subscribed(running)
        one.say("request", tag=1, hosts={"all#1": 1}, walltime=60)
        state = "SELECT a.state, j.state FROM applications a JOIN jobs j USING (job_id)"
        until(lambda: connection.execute(state).fetchone() == ("RequestSent", "Waiting"), "the request is stored")
        decide(connection)
        assert one.hear("startNotify")["tag"] == 1
        one.say("done")
        one.say("ping")
        one.hear("pong")
        assert connection.execute(state).fetchone() == ("Started", "toLaunch")
        assert asked_to_end(connection) == {}
        let_run(connection)
        until(lambda: asked_to_end(connection) == {job: "application done"}, "the job is ended")
