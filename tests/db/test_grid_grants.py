"""Who may grant what to a broker, with real users through a real gateway; and the line that opens the door to a key."""

from __future__ import annotations

import base64
import json
import os
import pwd
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from oarpy.client.caller import KeptReader
from oarpy.client.submission.feasibility import KnownNeeds
from oarpy.configuration import Configuration, load
from oarpy.grid.door import grants
from oarpy.grid.door.broker_keys import authorized_line
from oarpy.grid.door.call_context import CallContext
from oarpy.model.errors import NotAllowed, NotFound, UsageError
from oarpy.model.request import parse_request
from oarpy.model.submission import Submission
from oarpy.store.grid import grants as store
from oarpy.store.grid.grants import GrantRow
from tests.harness.gateway_process import GatewayProcess
from tests.harness.grid_door import door
from tests.harness.oarsub_cluster import build
from tests.harness.sample_cluster import Connection, Result

pytestmark = [
    pytest.mark.db,
    pytest.mark.skipif(os.getuid() != 0, reason="only root can become other users"),
]

GAMES, DAEMON, NOBODY, MAN = (pwd.getpwnam(name).pw_uid for name in ("games", "daemon", "nobody", "man"))
KEY = "ssh-ed25519 " + base64.b64encode(b"\0\0\0\x0bssh-ed25519\0\0\0\x20" + b"k" * 32).decode()
NOBODYS = "broker 'campus' acts for its user 'ann' as 'nobody'"


@pytest.fixture
def here(connection: Connection, cluster_environment: dict[str, str]) -> Iterator[GatewayProcess]:
    """A cluster that lets in the broker ``campus``, whose account is ``games``; ``daemon`` is an admin."""
    build(connection)
    with door({**cluster_environment, "OARPY_SUBMISSION_ADMINS": "daemon"}, "games", GAMES) as found:
        yield found.gateway


def asked(here: GatewayProcess, uid: int, *words: str) -> Result:
    return here.run("oargridctl", *words, uid=uid, cwd="/")


def test_users_grant_what_is_theirs(here: GatewayProcess) -> None:
    done = asked(here, NOBODY, "grant", "campus", "ann", "-q", "default", "--resources", "4", "--walltime", "2h")
    assert (done.status, done.out) == (0, f"Granted: {NOBODYS}\n"), done
    grant = {
        "broker": "campus",
        "broker_user": "ann",
        "user": "nobody",
        "queues": ["default"],
        "resources": 4,
        "walltime": 7200,
        "granted_by": "nobody",
    }
    assert json.loads(asked(here, NOBODY, "grants", "-J").out) == [grant]
    assert json.loads(asked(here, DAEMON, "grants", "-J").out) == [grant]
    assert json.loads(asked(here, MAN, "grants", "-J").out) == []
    table = "Broker  Its user  Account  Queues   Resources  Walltime  Granted by"
    assert asked(here, NOBODY, "grants").out.splitlines()[0].split() == table.split()
    assert asked(here, NOBODY, "revoke", "campus", "ann").out == f"Revoked: {NOBODYS}\n"
    assert json.loads(asked(here, DAEMON, "grants", "-J").out) == []


def test_nobody_takes_or_revokes_the_grant_of_another(here: GatewayProcess) -> None:
    assert asked(here, NOBODY, "grant", "campus", "ann").status == 0
    for words in (("grant", "campus", "ann"), ("revoke", "campus", "ann")):
        done = asked(here, MAN, *words)
        assert (done.status, done.out) == (5, "")
        assert "the grant for 'ann' of broker 'campus' belongs to 'nobody', not to 'man'" in done.err
    assert asked(here, DAEMON, "grant", "campus", "ann", "--user", "man").status == 0
    ((found,),) = [json.loads(asked(here, uid, "grants", "-J").out) for uid in (MAN,)]
    assert (found["user"], found["granted_by"]) == ("man", "daemon")


REFUSED = [
    (NOBODY, ("grant", "campus", "ann", "--user", "man"), 5, "account 'man' belongs to 'man', not to 'nobody'"),
    (NOBODY, ("grant", "campus", "ann", "--user", "root"), 5, "belongs to 'root'"),
    (DAEMON, ("grant", "campus", "ann", "--user", "root"), 5, "no broker acts for 'root', an admin"),
    (DAEMON, ("grant", "campus", "ann"), 5, "no broker acts for 'daemon', an admin"),
    (0, ("grant", "campus", "ann"), 5, "no broker acts for 'root', an admin"),
    (GAMES, ("grant", "campus", "ann"), 5, "no broker acts for 'games', the account of one"),
    (DAEMON, ("grant", "campus", "ann", "--user", "noone-here"), 4, "'noone-here' has no account here"),
    (NOBODY, ("grant", "lyon", "ann"), 4, "broker 'lyon' is not let in here (door.brokers names campus)"),
    (NOBODY, ("grant", "campus", "a b"), 2, "'a b' cannot be a user"),
    (NOBODY, ("grant", "campus", "ann", "-q", "nowhere"), 4, "unknown queue 'nowhere'"),
    (NOBODY, ("grant", "campus", "ann", "--resources", "0"), 2, "--resources"),
    (NOBODY, ("grant", "campus", "ann", "--walltime", "soon"), 2, "soon"),
    (NOBODY, ("revoke", "campus", "ann"), 4, "there is no grant for 'ann' of broker 'campus'"),
]


def test_what_may_not_be_granted_is_told_in_a_line(here: GatewayProcess, connection: Connection) -> None:
    for uid, words, status, reason in REFUSED:
        done = asked(here, uid, *words)
        assert (done.status, done.out) == (status, ""), (words, done)
        assert reason in done.err, (words, done)
        assert done.err.startswith("oargridctl: ")
        assert done.err.count("\n") == 1
    assert connection.execute("SELECT FROM grid_grants").fetchall() == []


def visit(connection: Connection, settings: Configuration) -> CallContext:
    brokers = replace(settings, door=replace(settings.door, brokers={"campus": "games"}))
    return CallContext("campus", connection, brokers, KeptReader(brokers))


def test_a_broker_acts_as_the_user_of_the_grant_and_within_it(
    connection: Connection, cluster_environment: dict[str, str]
) -> None:
    build(connection)
    there = visit(connection, load(cluster_environment))
    with pytest.raises(NotAllowed, match="nobody here lets broker 'campus' act for its user 'ann'"):
        grants.acting(there, "ann").__enter__()
    row = GrantRow("campus", "ann", "nobody", ["default"], 3, 3600, "root")
    with connection.transaction():
        store.grant(connection, row)
    asked_for = Submission(user="nobody", queue="default", command="x", alternatives=(parse_request("/nodes=1"),))
    fits = replace(asked_for, alternatives=(parse_request("/core=2,walltime=1:00:00"),))
    with grants.acting(there, "ann") as (grant, session):
        assert (session.user, session.is_admin, session.connection) == ("nobody", False, connection)
        needs = KnownNeeds(session)
        grants.check(grant, needs, fits)
        for beyond, reason in (
            (replace(fits, queue="admin"), "queue 'admin' is none of the grant for 'ann' of broker 'campus'"),
            (replace(fits, alternatives=(parse_request("/core=4"),)), "4 resources are above the 3 of the grant"),
            (
                replace(fits, alternatives=(*fits.alternatives, parse_request("/core=1,walltime=1:00:01"))),
                "walltime 1:0:1 is above the 1:0:0 of the grant",
            ),
        ):
            with pytest.raises(NotAllowed, match=reason):
                grants.check(grant, needs, beyond)


def test_a_grant_ends_when_its_user_becomes_an_admin(
    connection: Connection, cluster_environment: dict[str, str]
) -> None:
    store.grant(connection, GrantRow("campus", "ann", "nobody", [], None, None, "root"))
    there = visit(connection, load({**cluster_environment, "OARPY_SUBMISSION_ADMINS": "nobody"}))
    with pytest.raises(NotAllowed, match="no broker acts for 'nobody', an admin"):
        grants.acting(there, "ann").__enter__()


def test_the_line_for_a_key_has_the_key_and_nothing_else_of_the_file(here: GatewayProcess, tmp_path: Path) -> None:
    settings = load({"OARPY_DOOR_BROKERS": "campus=games"})
    line = f'restrict,command="/usr/bin/oargriddoor campus" {KEY} campus\n'
    assert authorized_line(settings, "campus", f"{KEY} me@there\nmore\n", "/usr/bin/oargriddoor") == line
    for text in ("", f'command="sh" {KEY}', KEY.replace("ssh-ed25519 ", "ssh-rsa "), KEY[:30] + "!", "-----BEGIN"):
        with pytest.raises(UsageError, match="no public key"):
            authorized_line(settings, "campus", text, "oargriddoor")
    with pytest.raises(NotFound):
        authorized_line(settings, "lyon", KEY, "oargriddoor")
    with pytest.raises(UsageError, match="cannot be the path"):
        authorized_line(settings, "campus", KEY, 'sh" x')
    (here.folder / "campus.pub").write_text(KEY)
    assert asked(here, NOBODY, "key", "campus", str(here.folder / "campus.pub")).out == line.replace("/usr/bin/", "")
