"""Sessions of brokers through a gateway: who may have one, and what becomes of lines that are no calls."""

from __future__ import annotations

import os
import pwd
import time
from collections.abc import Iterator
from contextlib import closing

import pytest

from oarpy.grid.calls.parts import ClusterAbilities
from oarpy.grid.calls.table import ClusterSilent, Describe
from oarpy.grid.clusters.oarpy_cluster import OarpyCluster
from tests.harness.grid_door import Door, door
from tests.harness.oarsub_cluster import build
from tests.harness.sample_cluster import Connection
from tests.harness.waiting import until

pytestmark = [
    pytest.mark.db,
    pytest.mark.skipif(os.getuid() != 0, reason="only root can become other users"),
]

GAMES, NOBODY = (pwd.getpwnam(name).pw_uid for name in ("games", "nobody"))
DESCRIBE = {"call": "describe", "key": "k1"}
_SESSIONS = "SELECT pid FROM pg_stat_activity WHERE application_name = 'oarpy oargriddoor'"


def test_a_session_without_calls_ends_and_the_broker_comes_again(
    connection: Connection, cluster_environment: dict[str, str]
) -> None:
    build(connection)
    with door(cluster_environment, "games", GAMES, idle_limit=0.5) as short, closing(short.cluster()) as cluster:
        cluster.ask(Describe())
        first = connection.execute(_SESSIONS).fetchall()
        until(lambda: connection.execute(_SESSIONS).fetchall() == [], "the session's end")
        assert first
        assert cluster.ask(Describe()).procs > 0


def test_a_session_ends_with_the_gateway_that_took_it(
    connection: Connection, cluster_environment: dict[str, str]
) -> None:
    build(connection)
    with door(cluster_environment, "games", GAMES) as found, closing(found.cluster()) as cluster:
        cluster.ask(Describe())
        found.gateway.process.kill()
        until(lambda: connection.execute(_SESSIONS).fetchall() == [], "the session's end")
        with pytest.raises(ClusterSilent):
            cluster.ask(Describe())


@pytest.fixture
def here(connection: Connection, cluster_environment: dict[str, str]) -> Iterator[Door]:
    """A door for the broker ``campus``, whose account is ``games``; no session goes on when the test has ended."""
    build(connection)
    with door(cluster_environment, "games", GAMES, sessions=2, line_limit=500, speed=1.5) as found:
        yield found


def refusal(here: Door, words: list[str]) -> str:
    """Return why a session cannot be had."""
    with closing(OarpyCluster("here", words)) as cluster, pytest.raises(ClusterSilent) as raised:
        cluster.ask(Describe())
    return str(raised.value)


def test_a_broker_is_told_what_the_cluster_is(here: Door, connection: Connection) -> None:
    ((procs,),) = connection.execute(
        "SELECT count(*) FROM resources WHERE state <> 'Dead' AND type = 'default'"
    ).fetchall()
    with closing(here.cluster()) as cluster:
        found = cluster.ask(Describe())
        assert (found.procs, found.speed, found.abilities) == (
            procs,
            1.5,
            ClusterAbilities(evict=False, amend=True, foresee=True, offer=True, rate=True, profile=True),
        )
        assert found.clock == pytest.approx(time.time(), abs=30)
        connection.execute("UPDATE resources SET state = 'Dead' WHERE resource_id = 1")
        later = cluster.ask(Describe())
    assert later.procs == procs - 1
    assert later.clock > found.clock


def test_lines_that_are_no_calls_are_answered_by_errors(here: Door) -> None:
    long = b'{"key": "' + b"x" * 600
    answers = here.ask(b"", b"DROP TABLE jobs", {"call": "shell", "key": "k7"}, long, DESCRIBE)
    assert [(one["key"], one.get("error", {}).get("code")) for one in answers] == [
        ("", "usage"),
        ("", "usage"),
        ("k7", "usage"),
        ("", "usage"),
        ("k1", None),
    ]
    assert answers[3]["error"]["message"] == "a line has 500 bytes at most"


def test_only_the_account_of_a_broker_has_a_session(here: Door) -> None:
    assert "'nobody' is not the account of a broker 'campus'" in refusal(here, here.words(uid=NOBODY))
    assert "'root' is not the account of a broker 'campus'" in refusal(here, here.words(uid=0))
    assert "'games' is not the account of a broker 'lyon'" in refusal(here, here.words("lyon"))


def test_a_broker_has_so_many_sessions_and_no_more(here: Door) -> None:
    with closing(here.cluster()) as first, closing(here.cluster()) as second:
        first.ask(Describe())
        second.ask(Describe())
        assert "broker 'campus' has 2 sessions already" in refusal(here, here.words())


def test_a_session_outlives_the_loss_of_its_connection(here: Door, connection: Connection) -> None:
    with closing(here.cluster()) as cluster:
        cluster.ask(Describe())
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'oarpy oargriddoor'"
        )
        assert cluster.ask(Describe()).procs > 0
