"""Which part of a grid job is entered by whom, and what no line enters."""

from __future__ import annotations

from typing import Any, TypeAlias

import psycopg
import pytest

from oarpy.client.session import Session
from oarpy.configuration import Configuration
from oarpy.grid.calls.entry import EnterPart, is_entry, read_entry
from oarpy.grid.calls.json_lines import encode
from oarpy.grid.entering.by_broker import way_of_cluster, way_of_user
from oarpy.model.errors import NotAllowed, NotFound, OarpyError, UsageError
from oarpy.store.grid import broker_jobs, broker_parts
from tests.harness.claim_rounds import ClaimRounds

pytestmark = [pytest.mark.db, pytest.mark.kept]
Connection: TypeAlias = "psycopg.Connection[tuple[Any, ...]]"
LINE = b'{"call":"enter","key":"k","part":"p","host":"h","command":"date"}'


@pytest.fixture
def rounds(connection: Connection) -> ClaimRounds:
    """A job over north and south whose program has begun."""
    made = ClaimRounds(connection)
    made.spread(12, walltime=1000)
    made.until(20)
    return made


def session(rounds: ClaimRounds, user: str, *, admin: bool = False) -> Session:
    return Session(rounds.connection, Configuration(), user, 1000, admin)


def asked(part: str, host: str) -> EnterPart:
    """What a job asks the broker."""
    return EnterPart(key="k", part=part, host=host, command="date")


def test_a_part_reaches_the_others_by_the_doors_of_their_clusters(rounds: ClaimRounds) -> None:
    north, south = rounds.parts(1)
    way = way_of_cluster(rounds.connection, "north", asked(north.name, south.hosts[0]))
    assert (way.entry.part, way.entry.user, way.door) == (south.name, "alice", ("oargriddoor", "campus"))
    with pytest.raises(NotFound, match="no host of grid job 1"):
        way_of_cluster(rounds.connection, "north", asked(north.name, "east-1"))


def test_a_cluster_is_believed_for_its_own_parts_alone(rounds: ClaimRounds) -> None:
    north, south = rounds.parts(1)
    for part in (south.name, "g1.7.1"):
        with pytest.raises(NotFound, match="has no part"):
            way_of_cluster(rounds.connection, "north", asked(part, south.hosts[0]))
    broker_jobs.ask_deletion(rounds.connection, [1], "alice")
    rounds.until(25)
    with pytest.raises(NotFound):
        way_of_cluster(rounds.connection, "north", asked(north.name, south.hosts[0]))


def test_a_job_is_entered_by_its_user_and_not_by_an_admin(rounds: ClaimRounds) -> None:
    host = rounds.parts(1)[1].hosts[0]
    assert way_of_user(session(rounds, "alice"), 1, host, "date", with_input=True).entry.user == "alice"
    for other in (session(rounds, "bob"), session(rounds, "root", admin=True)):
        with pytest.raises(NotAllowed, match="belongs to 'alice'"):
            way_of_user(other, 1, host, "date", with_input=True)
    with pytest.raises(NotFound, match="no grid job 2"):
        way_of_user(session(rounds, "alice"), 2, host, "date", with_input=True)


def test_a_host_name_of_two_clusters_enters_neither(rounds: ClaimRounds) -> None:
    north, south = rounds.parts(1)
    broker_parts.note_hosts(rounds.connection, {north.name: ["n1", "n2"], south.name: ["n1", "n3"]})
    with pytest.raises(OarpyError, match="'n1' is a host of grid job 1 on several clusters: north, south"):
        way_of_user(session(rounds, "alice"), 1, "n1", "date", with_input=True)
    with pytest.raises(OarpyError, match="several clusters"):
        way_of_cluster(rounds.connection, "north", asked(north.name, "n1"))
    assert way_of_cluster(rounds.connection, "north", asked(north.name, "n3")).entry.part == south.name


def test_lines_enter_only_what_they_say_exactly() -> None:
    assert is_entry(LINE)
    assert read_entry(LINE) == EnterPart(key="k", part="p", host="h", command="date")
    assert read_entry(encode(read_entry(LINE))) == read_entry(LINE)
    assert not any(map(is_entry, (b"", b"[]", b'{"call":"events","key":"k","after":0}')))
    for wrong in (LINE[:-1] + b',"more":1}', LINE.replace(b'"h"', b'"a b"'), LINE.replace(b'"key":"k",', b"")):
        assert is_entry(wrong)
        with pytest.raises(UsageError, match="no entry"):
            read_entry(wrong)
