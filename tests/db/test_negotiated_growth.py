"""Launchers ask for more hosts while their jobs run, give some back, and are told what others take."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from oarpy.store.jobs import resizes
from tests.db.test_negotiation import state, submitted
from tests.harness.gateway_process import GatewayProcess, gateway
from tests.harness.launchers import LauncherProcess, launcher, negotiator
from tests.harness.oarsub_cluster import build, decide, let_run, run_pass, settings
from tests.harness.sample_cluster import Connection
from tests.harness.waiting import until

pytestmark = pytest.mark.db


@pytest.fixture
def running(
    connection: Connection, cluster_environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[GatewayProcess]:
    """A gateway and a negotiator, for a small cluster whose admin is the user of the tests; clusters are by memory."""
    build(connection)
    monkeypatch.setenv("OARPY_NEGOTIATION_CLUSTER", "mem")
    environment = {**cluster_environment, **settings(), "TZ": "UTC", "OARPY_NEGOTIATION_CLUSTER": "mem"}
    with gateway(environment, workers=2) as found, negotiator(environment, found):
        yield found


def started(
    connection: Connection, running: GatewayProcess, hosts: int = 1, **options: str
) -> tuple[LauncherProcess, int, str]:
    """A launcher whose job runs, with the job and its cluster: all hosts are equal."""
    connection.execute("UPDATE resources SET mem = 8")
    one = launcher(running)
    one.say("subscribe", **options)
    job = one.hear("subscribed")["job"]
    name = next(iter(one.hear("changeNotify")["changes"]))
    one.say("request", tag=1, hosts={name: hosts}, walltime=600)
    until(lambda: state(connection, job) == ("RequestSent", "Waiting"), "the request is stored")
    decide(connection)
    one.hear("startNotify")
    let_run(connection)
    return one, job, name


def confirm(connection: Connection) -> None:
    """What nodes do that are told of hosts that come or go."""
    resizes.confirm(connection, [one.id for one in resizes.opened(connection)])


def test_a_host_that_is_gone_before_it_is_told_of_is_named_in_its_cluster(
    running: GatewayProcess, connection: Connection
) -> None:
    one, job, name = started(connection, running)
    one.say("extend", tag="more", hosts={name: 1}, kind="firm")
    asked = "SELECT count(*) FROM extensions WHERE state = 'Waiting'"
    until(lambda: connection.execute(asked).fetchone() == (1,), "the extension is stored")
    with connection.transaction():
        decide(connection)
        ((come,),) = connection.execute("SELECT resource_ids FROM resizes").fetchall()
        confirm(connection)
        assert resizes.order(connection, job, "release", come) is not None
        confirm(connection)
    granted = one.hear("granted")
    assert list(granted["names"]) == [name]
    assert one.hear("released")["names"] == granted["names"][name]


def test_it_grows_and_shrinks_while_it_runs(running: GatewayProcess, connection: Connection) -> None:
    one, job, name = started(connection, running)
    one.say("extend", tag="more", hosts={name: 1}, kind="firm")
    asked = "SELECT count(*) FROM extensions WHERE state = 'Waiting'"
    until(lambda: connection.execute(asked).fetchone() == (1,), "the extension is stored")
    decide(connection)
    confirm(connection)
    granted = one.hear("granted")
    assert (granted["tag"], granted["kind"], granted["hosts"]) == ("more", "firm", {name: 1})
    (come,) = granted["names"][name]
    again = launcher(running)
    again.say("attach", job=job)
    again.hear("attached")
    start = again.hear("startNotify")
    (first, second) = start["names"][name]
    assert second == come
    for names, code in (([first], 3), (["elsewhere"], 4)):
        again.say("release", names=names)
        assert again.hear("refused")["code"] == code
    again.say("release", names=[come])
    until(lambda: len(resizes.opened(connection)) == 1, "the release is stored")
    confirm(connection)
    assert again.hear("released") == {"message": "released", "names": [come]}
    for hosts, code in (({name: 99}, 3), ({"nowhere": 1}, 4)):
        again.say("extend", tag=7, hosts=hosts, kind="firm")
        refused = again.hear("refused")
        assert (refused["of"], refused["tag"], refused["code"]) == ("extend", 7, code)


def test_hosts_of_no_cluster_in_particular_are_malformed(running: GatewayProcess, connection: Connection) -> None:
    one, _, name = started(connection, running)
    for hosts in ({"": 1}, {name: 1, "": 1}):
        one.say("extend", tag=7, hosts=hosts, kind="firm")
        assert one.hear("refused")["code"] == 2
    assert connection.execute("SELECT count(*) FROM extensions").fetchone() == (0,)


def test_what_is_granted_is_counted_as_it_was_asked_for(running: GatewayProcess, connection: Connection) -> None:
    one, _, name = started(connection, running, level="core")
    one.say("extend", tag=1, hosts={name: 3}, kind="firm")
    asked = "SELECT count(*) FROM extensions WHERE state = 'Waiting'"
    until(lambda: connection.execute(asked).fetchone() == (1,), "the extension is stored")
    decide(connection)
    confirm(connection)
    granted = one.hear("granted")
    assert granted["hosts"] == {name: 3}
    assert len(granted["names"][name]) < 3


def test_revocable_hosts_are_reclaimed_before_they_are_taken(running: GatewayProcess, connection: Connection) -> None:
    one, _, name = started(connection, running)
    one.say("extend", tag=2, hosts={name: 2}, kind="revocable")
    asked = "SELECT count(*) FROM extensions WHERE state = 'Waiting'"
    until(lambda: connection.execute(asked).fetchone() == (1,), "the extension is stored")
    decide(connection)
    confirm(connection)
    (names,) = one.hear("granted")["names"].values()
    submitted(running, "-l", "/nodes=2,walltime=0:10:0", "sleep 1")
    run_pass(connection)
    reclaim = one.hear("reclaim")
    assert set(reclaim["names"]) == set(names)
    ((by,),) = connection.execute("SELECT extract(epoch FROM start_time)::float8 FROM gantt_predictions").fetchall()
    assert reclaim["by"] == by
    one.say("extend", tag=3, hosts={name: 1}, kind="firm")
    estimate = one.hear("estimate") if until_estimated(connection) else {}
    assert (estimate["tag"], estimate["verdict"]) == (3, "behind_higher_priority")


def until_estimated(connection: Connection) -> bool:
    """Wait until a pass has looked at the extension that waits."""

    def told() -> bool:
        run_pass(connection)
        return connection.execute("SELECT FROM extensions WHERE told IS NOT NULL").fetchall() != []

    until(told, "the extension is estimated")
    return True


def test_before_its_start_it_neither_grows_nor_shrinks(running: GatewayProcess) -> None:
    one = launcher(running)
    one.say("subscribe")
    one.hear("subscribed")
    name = next(iter(one.hear("changeNotify")["changes"]))
    one.say("extend", tag=1, hosts={name: 1}, kind="firm")
    assert one.hear("refused")["code"] == 1
    one.say("release", names=["n1"])
    assert one.hear("refused")["code"] == 1
