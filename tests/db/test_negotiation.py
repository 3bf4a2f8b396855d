"""Launchers negotiate through a real gateway and a real negotiator."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from oarpy.configuration import load
from oarpy.modules.metascheduler.metascheduler import Metascheduler
from oarpy.store.jobs import requeueing
from tests.harness.gateway_process import TIMEOUT, GatewayProcess, gateway
from tests.harness.launchers import LauncherProcess, launcher, negotiator
from tests.harness.oarsub_cluster import build, decide, let_run, run_pass, settings
from tests.harness.sample_cluster import ME, Connection
from tests.harness.waiting import until

pytestmark = pytest.mark.db


@pytest.fixture
def environment(connection: Connection, cluster_environment: dict[str, str]) -> dict[str, str]:
    """A small cluster whose admin is the user of the tests."""
    build(connection)
    return {**cluster_environment, **settings(), "TZ": "UTC"}


@pytest.fixture
def running(environment: dict[str, str]) -> Iterator[GatewayProcess]:
    """A gateway and a negotiator."""
    with gateway(environment, workers=2) as found, negotiator(environment, found):
        yield found


def state(connection: Connection, job: int) -> tuple[object, ...] | None:
    return connection.execute(
        "SELECT a.state, j.state FROM applications a JOIN jobs j USING (job_id) WHERE job_id = %s", [job]
    ).fetchone()


def behind_a_batch_job(running: GatewayProcess, connection: Connection) -> tuple[LauncherProcess, int, str, int]:
    """Ask for a host that a batch job has: the launcher, its job, the cluster, and the batch job, which holds all."""
    one = launcher(running)
    one.say("subscribe")
    job = one.hear("subscribed")["job"]
    name = next(iter(one.hear("changeNotify")["changes"]))
    batch = submitted(running, "-l", "/nodes=3,walltime=1:0:0", "sleep 1")
    run_pass(connection)
    one.say("request", tag=1, hosts={name: 1}, walltime=600)
    until(lambda: state(connection, job) == ("RequestSent", "Waiting"), "the request is stored")
    return one, job, name, batch


def test_who_subscribes_has_a_job_and_sees_what_is_free(running: GatewayProcess, connection: Connection) -> None:
    one = launcher(running)
    one.say("subscribe")
    job = one.hear("subscribed")["job"]
    first = one.hear("changeNotify")
    assert first["serial"] == 1
    assert first["changes"]
    assert all(len(profile) == 1 for profile in first["changes"].values())
    assert state(connection, job) == ("Submitted", "Waiting")
    run_pass(connection)
    told = connection.execute("SELECT verdict, reason FROM gantt_predictions WHERE job_id = %s", [job]).fetchone()
    assert told == ("held", "its launcher has not asked for hosts yet")
    assert one.leave() == 0


def test_what_jobs_have_that_give_way_to_it_is_free_in_its_first_view(
    running: GatewayProcess, connection: Connection
) -> None:
    connection.execute("INSERT INTO queues (queue_name, priority, gives_way_to) VALUES ('guests', 5, '{default}')")
    guest = submitted(running, "-q", "guests", "-l", "/nodes=3,walltime=1:0:0", "sleep 1")
    decide(connection)
    assert connection.execute("SELECT state FROM jobs WHERE job_id = %s", [guest]).fetchone() == ("toLaunch",)
    one = launcher(running)
    one.say("subscribe")
    one.hear("subscribed")
    assert all(len(profile) == 1 for profile in one.hear("changeNotify")["changes"].values())


def test_what_they_are_promised_is_busy_in_its_first_view(running: GatewayProcess, connection: Connection) -> None:
    connection.execute("INSERT INTO queues (queue_name, priority, gives_way_to) VALUES ('guests', 5, '{default}')")
    date = datetime.now(UTC) + timedelta(hours=1)
    wanted = "-l", "/nodes=3,walltime=1:0:0", "sleep 1"
    guest = running.start("oarsub", "-q", "guests", "-r", f"{date:%Y-%m-%d %H:%M:%S}", *wanted)
    assert guest.stdout is not None
    assert guest.stdout.readline().startswith("OAR_JOB_ID=")
    decide(connection)
    assert guest.wait(TIMEOUT) == 0, "it is accepted"
    one = launcher(running)
    one.say("subscribe")
    one.hear("subscribed")
    profiles = one.hear("changeNotify")["changes"].values()
    assert [profile[2::2] for profile in profiles if len(profile) > 1] == [[0, 1]] * 2, "free until the date, then busy"


def test_it_asks_is_told_its_start_and_its_hosts_and_gives_them_back(
    running: GatewayProcess, connection: Connection
) -> None:
    one = launcher(running)
    one.say("subscribe")
    job = one.hear("subscribed")["job"]
    clusters = one.hear("changeNotify")["changes"]
    name = next(iter(clusters))
    one.say("done")
    assert one.hear("refused")["code"] == 1
    one.say("request", tag="first", hosts={name: 1}, walltime=600, serial=1)
    until(lambda: state(connection, job) == ("RequestSent", "Waiting"), "the request is stored")
    decide(connection)
    assert state(connection, job) == ("Started", "toLaunch")
    start = one.hear("startNotify")
    assert (start["tag"], start["hosts"]) == ("first", {name: 1})
    assert [len(hosts) for hosts in start["names"].values()] == [1]
    let_run(connection)
    one.say("request", tag=2, hosts={name: 1}, walltime=600)
    refused = one.hear("refused")
    assert (refused["code"], refused["tag"]) == (1, 2)
    one.say("done")
    asked = "SELECT reason FROM kill_requests WHERE job_id = %s"
    until(lambda: connection.execute(asked, [job]).fetchone() == ("application done",), "its end is asked")
    end(connection, job)
    decide(connection)
    assert one.hear("ended") == {"message": "ended", "reason": "done"}
    assert state(connection, job) == ("Finished", "Error")
    assert one.process.wait(TIMEOUT) == 0


def test_a_project_pays_for_what_it_asks_for(environment: dict[str, str], connection: Connection) -> None:
    """Each request takes the place of the one before, and of the subscription, which asked for next to nothing."""
    connection.execute("INSERT INTO projects (project, hours) VALUES ('fire', 10)")
    connection.execute("INSERT INTO project_members (project, user_name) VALUES ('fire', %s)", [ME])
    environment = {**environment, "OARPY_SUBMISSION_PROJECTS": "members"}
    with gateway(environment, workers=2) as running, negotiator(environment, running):
        one = launcher(running)
        one.say("subscribe")
        job = one.hear("subscribed")["job"]
        name = max(one.hear("changeNotify")["changes"])
        hours = "SELECT asked_hours, left_hours FROM oar_report.projects"
        one.say("request", tag=1, hosts={name: 1}, walltime=7200)
        until(lambda: state(connection, job) == ("RequestSent", "Waiting"), "the request is stored")
        assert connection.execute(hours).fetchall() == [(8, 2)]
        one.say("request", tag=2, hosts={name: 1}, walltime=14400)
        refused = one.hear("refused")
        assert (refused["code"], refused["tag"]) == (3, 2)
        assert "project 'fire' has 10 of 10 hours left, and this asks for 16" in refused["reason"]
        assert connection.execute(hours).fetchall() == [(8, 2)]
        assert one.leave() == 0


def test_a_job_that_lost_its_hosts_before_it_ran_is_told_which_it_has_instead(
    running: GatewayProcess, connection: Connection
) -> None:
    connection.execute("UPDATE resources SET mem = 8 WHERE type = 'default'")
    one = launcher(running)
    one.say("subscribe")
    job = one.hear("subscribed")["job"]
    name = next(iter(one.hear("changeNotify")["changes"]))
    one.say("request", tag=1, hosts={name: 1}, walltime=600)
    until(lambda: state(connection, job) == ("RequestSent", "Waiting"), "the request is stored")
    decide(connection)
    first = one.hear("startNotify")
    ((host,),) = first["names"].values()
    connection.execute("UPDATE resources SET state = 'Absent' WHERE network_address = %s", [host])
    assert requeueing.unplace(connection, 60, led=True) == [job]
    assert state(connection, job) == ("Started", "Waiting")
    decide(connection)
    assert state(connection, job) == ("Started", "toLaunch")
    again = one.hear("startNotify")
    assert (again["tag"], again["hosts"]) == (first["tag"], first["hosts"])
    assert host not in again["names"][name]
    assert again["until"] > first["until"]
    one.say("attach", job=job)
    assert one.hear("attached")["state"] == "Started"
    assert one.hear("startNotify") == again


def test_one_behind_another_is_shown_what_it_may_not_have(running: GatewayProcess, connection: Connection) -> None:
    one, other = launcher(running), launcher(running)
    jobs = []
    for each in (one, other):
        each.say("subscribe")
        jobs.append(each.hear("subscribed")["job"])
        name = next(iter(each.hear("changeNotify")["changes"]))
        each.say("request", tag=1, hosts={name: 1}, walltime=600)
        until(lambda: state(connection, jobs[-1]) == ("RequestSent", "Waiting"), "the request is stored")
    decide(connection)
    one.hear("startNotify")
    view, estimate = other.hear("changeNotify"), other.hear("estimate")
    begin, duration, busy = view["changes"][name]
    assert (view["serial"], busy) == (2, 1)
    assert estimate["start"] == begin + duration
    assert estimate["verdict"] == "behind_higher_priority"
    assert duration >= 600
    other.say("keep", serial=3)
    assert other.hear("refused")["code"] == 2
    other.say("keep", serial=2)
    again = launcher(running)
    again.say("attach", job=jobs[1])
    assert again.hear("attached") == {
        "message": "attached", "job": jobs[1], "state": "Waiting", "tag": 1, "serial": 2
    }  # fmt: skip
    assert again.hear("changeNotify")["changes"] == {**clusters_of(connection, jobs[1])}
    assert again.hear("estimate") == estimate
    assert other.process.wait(TIMEOUT) == 1


def test_freed_hosts_are_kept_back_until_who_was_shown_them_has_answered(
    running: GatewayProcess, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OARPY_NEGOTIATION_FAIR_START", "500")
    one, job, name, batch = behind_a_batch_job(running, connection)
    behind = submitted(running, "-l", "/nodes=3,walltime=0:10:0", "sleep 1")
    decide(connection)
    assert one.hear("changeNotify")["serial"] == 2
    busy_until = one.hear("estimate")["start"]
    end(connection, batch)
    decide(connection)
    view, estimate = one.hear("changeNotify"), one.hear("estimate")
    assert (view["serial"], view["changes"][name][2]) == (3, 1)
    assert estimate["start"] < busy_until
    assert state(connection, job) == ("Waiting", "Waiting")
    ghost = "SELECT job_id, owed_by, owed_since FROM ghosts"
    assert connection.execute(ghost).fetchall() == [(batch, [job], [3])]
    decide(connection)
    assert state(connection, job) == ("Waiting", "Waiting")
    one.say("keep", serial=3)
    until(lambda: answered(connection, job) == 3, "the answer is stored")
    decide(connection)
    assert one.hear("startNotify")["hosts"] == {name: 1}
    assert connection.execute(ghost).fetchall() == []
    row = connection.execute("SELECT state FROM jobs WHERE job_id = %s", [behind]).fetchone()
    assert row == ("Waiting",)


def test_hosts_of_a_job_that_gave_way_to_it_are_not_kept_back(running: GatewayProcess, connection: Connection) -> None:
    connection.execute("INSERT INTO queues (queue_name, priority, gives_way_to) VALUES ('guests', 5, '{default}')")
    guest = submitted(running, "-q", "guests", "-l", "/nodes=3,walltime=1:0:0", "sleep 1")
    run_pass(connection)
    one = launcher(running)
    one.say("subscribe")
    job = one.hear("subscribed")["job"]
    name = next(iter(one.hear("changeNotify")["changes"]))
    one.say("request", tag=1, hosts={name: 1}, walltime=600, serial=1)
    until(lambda: state(connection, job) == ("RequestSent", "Waiting"), "the request is stored")
    decide(connection)
    assert connection.execute("SELECT job_id FROM kill_requests").fetchall() == [(guest,)]
    end(connection, guest)
    later = launcher(running)
    later.say("subscribe")
    later.hear("subscribed")
    profiles = later.hear("changeNotify")["changes"].values()
    assert sum(profile[2] for profile in profiles if len(profile) > 1) == 1, "the host of the first application"
    decide(connection)
    assert state(connection, job) == ("Started", "toLaunch")
    assert connection.execute("SELECT job_id FROM ghosts").fetchall() == []


def test_a_pass_sooner_than_the_timer_is_for_batch_jobs_alone(
    running: GatewayProcess, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, seconds in (("TIMER", 1000), ("FAIR_START", 500)):
        monkeypatch.setenv(f"OARPY_NEGOTIATION_{name}", str(seconds))
    one, job, name, batch = behind_a_batch_job(running, connection)
    passes = Metascheduler(load())
    passes.run_once(connection, datetime.now().astimezone())
    assert one.hear("changeNotify")["serial"] == 2
    one.hear("estimate")
    told = "SELECT (SELECT a::text FROM applications a), (SELECT g::text FROM gantt_predictions g WHERE job_id = %s)"
    before = connection.execute(told, [job]).fetchone()
    end(connection, batch)
    small = submitted(running, "-l", "/nodes=1,walltime=0:10:0", "sleep 1")
    passes.run_once(connection, datetime.now().astimezone())
    waits = connection.execute("SELECT state FROM jobs WHERE job_id = %s", [small]).fetchone()
    assert (waits, connection.execute("SELECT job_id FROM ghosts").fetchall()) == (("Waiting",), [])
    assert connection.execute(told, [job]).fetchone() == before
    decide(connection)
    assert one.hear("changeNotify")["serial"] == 3
    assert connection.execute("SELECT job_id FROM ghosts").fetchall() == [(batch,)]


def test_answers_before_the_timer_wait_for_it_and_batch_jobs_do_not(
    running: GatewayProcess, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OARPY_NEGOTIATION_TIMER", "500")
    one, job, _, _ = behind_a_batch_job(running, connection)
    module = Metascheduler(load())
    module.run_once(connection, datetime.now().astimezone())
    one.hear("changeNotify")
    module.run_once(connection, datetime.now().astimezone())
    before = passes(connection)
    one.say("keep", serial=2)
    until(lambda: answered(connection, job) == 2, "the answer is stored")
    outcome = module.run_once(connection, datetime.now().astimezone())
    assert passes(connection) == before
    assert outcome.wake_at is not None
    submitted(running, "-l", "/nodes=1,walltime=1:0:0", "sleep 1")
    module.run_once(connection, datetime.now().astimezone())
    assert passes(connection) == before + 1


def submitted(running: GatewayProcess, *words: str) -> int:
    result = running.run("oarsub", *words)
    assert result.status == 0, result
    return int(result.out.rpartition("OAR_JOB_ID=")[2])


def passes(connection: Connection) -> int:
    row = connection.execute("SELECT pass FROM scheduling_passes").fetchone()
    assert row is not None
    return int(row[0])


def answered(connection: Connection, job: int) -> int:
    row = connection.execute("SELECT answered FROM applications WHERE job_id = %s", [job]).fetchone()
    assert row is not None
    return int(row[0])


def clusters_of(connection: Connection, job: int) -> dict[str, object]:
    row = connection.execute("SELECT view FROM applications WHERE job_id = %s", [job]).fetchone()
    assert row is not None
    return {name: profile for name, (_, profile) in row[0].items()}


def end(connection: Connection, job: int) -> None:
    """End a running job, as the launcher does when it was killed."""
    connection.execute("UPDATE jobs SET state = 'Finishing', final_state = 'Error' WHERE job_id = %s", [job])
    connection.execute(
        "UPDATE jobs SET state = 'Error', ended_at = now(), left_nothing = true WHERE job_id = %s", [job]
    )


BAD = [
    "",
    "[]",
    "no JSON",
    '{"message": "fly"}',
    '{"message": "ping", "message": "ping"}',
    '{"message": "keep"}',
    '{"message": "keep", "serial": "1"}',
    '{"message": "keep", "serial": 7}',
    '{"message": "keep", "serial": 0}',
    '{"message": "request", "tag": 1, "hosts": {"all#1": 1}, "walltime": 60, "serial": 0}',
    '{"message": "keep", "serial": 1, "more": 1}',
    '{"message": "request", "tag": 1, "hosts": {}, "walltime": 60}',
    '{"message": "request", "tag": true, "hosts": {"all#1": 1}, "walltime": 60}',
    '{"message": "request", "tag": 1, "hosts": {"all#1": 1.5}, "walltime": 60}',
    '{"message": "request", "tag": 1, "hosts": {"all#1": 1}, "walltime": 1e999}',
    '{"message": "request", "tag": 1, "hosts": {"all#1": 1}, "walltime": 60, "serial": 9}',
    '{"message": "request", "tag": "\\u0007", "hosts": {"all#1": 1}, "walltime": 60}',
]
REFUSED = [
    ({"hosts": {"all#1": 1}, "walltime": 0}, 3),
    ({"hosts": {"all#1": 2}, "walltime": 60}, 3),
    ({"hosts": {"none": 1}, "walltime": 60}, 4),
]


def test_bad_lines_change_nothing_and_a_killed_negotiator_loses_nothing(
    environment: dict[str, str], connection: Connection
) -> None:
    with gateway(environment, workers=2) as found:
        with negotiator(environment, found) as first:
            one = launcher(found)
            one.say("request", tag=1, hosts={"all#1": 1}, walltime=60)
            assert one.hear("refused")["code"] == 1
            one.say("subscribe")
            subscribed = one.hear("subscribed")
            job = subscribed["job"]
            view = one.hear("changeNotify")
            before = connection.execute("SELECT a::text FROM applications a").fetchall()
            for line in BAD:
                one.send(line)
                assert one.hear("refused")["code"] == 2, line
            for fields, code in REFUSED:
                one.say("request", tag=1, **fields)
                answer = one.hear("refused")
                assert (answer["of"], answer["tag"], answer["code"]) == ("request", 1, code), answer
            assert connection.execute("SELECT a::text FROM applications a").fetchall() == before
            first.kill()
            assert one.process.wait(TIMEOUT) == 1
        with negotiator(environment, found):
            foreign = launcher(found, uid=65534)
            for number in (job, job + 1000):
                foreign.say("attach", job=number, token="0" * 32)
                assert foreign.hear("refused")["code"] == 5
            assert foreign.leave() == 5
            again = launcher(found, uid=65534)
            again.say("attach", job=job, token=subscribed["token"])
            assert again.hear("attached")["state"] == "Submitted"
            assert again.hear("changeNotify") == view
            again.say("request", tag=2, hosts={"all#1": 1}, walltime=60)
            until(lambda: state(connection, job) == ("RequestSent", "Waiting"), "the request is stored")


def test_a_flood_of_requests_ends_the_connection_and_the_last_request_stands(
    running: GatewayProcess, connection: Connection
) -> None:
    one = launcher(running)
    one.say("subscribe")
    job = one.hear("subscribed")["job"]
    one.hear("changeNotify")
    one.say("request", tag="stands", hosts={"all#1": 1}, walltime=60)
    until(lambda: state(connection, job) == ("RequestSent", "Waiting"), "the request is stored")
    words = {"message": "request", "tag": "flood", "hosts": {"all#1": 1}, "walltime": 90}
    one.send("\n".join([json.dumps(words)] * 60))
    refused = one.hear("refused")
    assert (refused["of"], refused["code"]) == (None, 6)
    assert one.process.wait(TIMEOUT) == 1
    row = connection.execute("SELECT state, tag, requests < 30 FROM applications").fetchone()
    assert row in [("RequestSent", tag, True) for tag in ("stands", "flood")]


WRONG_LAUNCHERS = [
    (("--launcher", "true"), 3, "this site runs no launchers (negotiation.launcher_host is empty)"),
    (("--launcher", "true", "-l", "/nodes=1"), 2, "-l beside a subscription"),
    (("--launcher", " "), 2, "--launcher takes a command of one line"),
    (("--launcher", "a\nb"), 2, "--launcher takes a command of one line"),
    (("--launcher", "true", "--dry-run"), 2, "--dry-run with --launcher"),
    (("--launcher", "true", "--resubmit", "1"), 2, "--launcher with --resubmit"),
]


def test_launchers_that_cannot_be_run_are_refused_by_name(environment: dict[str, str], connection: Connection) -> None:
    hosts = {"OARPY_NEGOTIATION_LAUNCHER_HOST": "n1"}
    with gateway(environment, workers=1) as without, gateway({**environment, **hosts}, workers=1) as with_host:
        for words, status, reason in WRONG_LAUNCHERS:
            result = (without if status == 3 else with_host).run("oarsub", *words)
            assert (result.status, result.out) == (status, ""), result
            assert result.err.startswith(f"oarsub: {reason}")
            assert result.err.count("\n") == 1
        assert connection.execute("SELECT count(*) FROM jobs").fetchone() == (0,)
        made = with_host.run("oarsub", "-n", "sweep", "--launcher", "./sweep.py 3", "date")
        assert made.status == 0, made
        job = int(made.out.rpartition("OAR_JOB_ID=")[2])
    row = connection.execute("SELECT launcher, lost_since IS NULL FROM applications WHERE job_id = %s", [job])
    assert row.fetchone() == ("./sweep.py 3", False)
