"""What cannot be meant, said by launchers and typed with their commands: one line each, with a code or a status."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.harness.gateway_process import GatewayProcess, gateway
from tests.harness.launchers import LauncherProcess, launcher, negotiator
from tests.harness.oarsub_cluster import build, contents, run_pass, settings
from tests.harness.sample_cluster import Connection
from tests.harness.waiting import until

pytestmark = pytest.mark.db

NOBODY = 65534


@dataclass(frozen=True, slots=True)
class Said:
    """A message that is refused with a code, for a reason that has these words."""

    code: int
    words: str
    message: str
    fields: dict[str, Any] = field(default_factory=dict)


def subscribe(code: int, words: str, **fields: Any) -> Said:
    return Said(code, words, "subscribe", fields)


def arguments(words: str, *arguments: str, code: int = 2) -> Said:
    return subscribe(code, words, arguments=list(arguments))


BEFORE = [
    subscribe(3, "no cluster passes the filter", filter={"clusters": ["nowhere"]}),
    subscribe(3, "no cluster passes the filter", filter={"min_hosts": 99}),
    subscribe(3, "no cluster passes the filter", filter={"min_total": {"core": 1e6}}),
    subscribe(2, "syntax error", filter={"properties": "mem >"}),
    subscribe(2, "colour", filter={"properties": "colour = 'red'"}),
    subscribe(2, "whole number other than 0", filter={"properties": "mem / (cpu - cpu) = 1"}),
    subscribe(2, "not allowed", filter={"properties": "mem = (SELECT 1)"}),
    subscribe(3, "molecule", level="molecule"),
    arguments("-l beside a subscription", "-l", "/host=1", "sleep 1"),
    arguments("-p beside a subscription", "-p", "mem = 1", "sleep 1"),
    arguments("-r beside a subscription", "-r", "2030-01-01 00:00:00", "sleep 1"),
    arguments("--array beside a subscription", "--array", "2", "sleep 1"),
    arguments("-I beside a subscription", "-I"),
    arguments("-S beside a subscription", "-S", "./script"),
    arguments("how oarsub answers", "-C", "1"),
    arguments("how oarsub answers", "--wait", "sleep 1"),
    arguments("how oarsub answers", "--resubmit", "1"),
    arguments("makes no job", "--help"),
    arguments("makes no job", "-V"),
    arguments("--colour", "--colour", "red", "sleep 1"),
    arguments("--subscribe", "--subscribe", "{}", "sleep 1"),
    arguments("nowhere", "-q", "nowhere", "sleep 1", code=4),
    arguments("closed", "-q", "closed", "sleep 1", code=3),
    arguments("molecular", "-t", "molecular", "sleep 1", code=3),
    Said(1, "no job yet", "request", {"tag": 1, "hosts": {"all#1": 1}, "walltime": 60}),
    Said(1, "no job yet", "done"),
    Said(4, "nowhere", "listClustersInfo", {"clusters": ["nowhere"]}),
    Said(5, "no job", "attach", {"job": 999}),
    Said(5, "no job", "attach", {"job": 999, "token": "0" * 32}),
]
AFTER = [
    subscribe(1, "has job"),
    Said(1, "has job", "attach", {"job": 999}),
    Said(4, "nowhere", "request", {"tag": 1, "hosts": {"nowhere": 1}, "walltime": 60}),
    Said(3, "hosts of cluster", "request", {"tag": 1, "hosts": {"all#1": 99}, "walltime": 60}),
    Said(3, "walltime", "request", {"tag": 1, "hosts": {"all#1": 1}, "walltime": -1}),
    Said(3, "walltime", "request", {"tag": 1, "hosts": {"all#1": 1}, "walltime": 1e12}),
    Said(2, "serial 7 was never sent", "request", {"tag": 1, "hosts": {"all#1": 1}, "walltime": 60, "serial": 7}),
    Said(2, "serial 7 was never sent", "keep", {"serial": 7}),
    Said(1, "", "done"),
    Said(1, "", "extend", {"tag": 1, "hosts": {"all#1": 1}, "kind": "firm"}),
    Said(1, "", "release", {"names": ["n2"]}),
]
RUNNING = [
    Said(1, "started", "request", {"tag": 2, "hosts": {"all#1": 1}, "walltime": 60}),
    Said(1, "started", "keep", {"serial": 1}),
    Said(4, "nowhere", "extend", {"tag": 3, "hosts": {"nowhere": 1}, "kind": "firm"}),
    Said(3, "hosts of cluster", "extend", {"tag": 3, "hosts": {"all#1": 99}, "kind": "revocable"}),
    Said(2, "bad value", "extend", {"tag": 3, "hosts": {"all#1": 1}, "kind": "steel"}),
    Said(4, "n77", "release", {"names": ["n77"]}),
    Said(3, "first host", "release", {"names": ["n2"]}),
    Said(2, "", "release", {"names": []}),
]


@dataclass(frozen=True, slots=True)
class Typed:
    """A command that ends with a status and one line."""

    status: int
    words: str
    command: tuple[str, ...]
    uid: int | None = None


REQUEST = '{"message": "request", "tag": 1, "hosts": {"all#1": 1}, "walltime": 60}'
COMMANDS = [
    Typed(2, "--ask", ("oarnegotiate", "--ask", "x", "--request", REQUEST)),
    Typed(2, "--ask", ("oarnegotiate", "--ask", "JOB")),
    Typed(2, "--request", ("oarnegotiate", "--ask", "JOB", "--request", "{")),
    Typed(2, "--request", ("oarnegotiate", "--ask", "JOB", "--request", '{"message": "ping"}')),
    Typed(5, "no job", ("oarnegotiate", "--ask", "999", "--request", REQUEST)),
    Typed(5, "no job", ("oarnegotiate", "--ask", "JOB", "--request", REQUEST), NOBODY),
    Typed(2, "extra", ("oarnegotiate", "now")),
    Typed(2, "--subscribe", ("oarsub", "--subscribe", "{", "sleep 1")),
    Typed(2, "--subscribe", ("oarsub", "--subscribe", REQUEST, "sleep 1")),
    Typed(2, "negotiated", ("oarsub", "-t", "negotiated", "sleep 1")),
    Typed(2, "red", ("oaradmin", "links", "set", "red", "red", "--latency", "1", "--bandwidth", "1")),
    Typed(2, "--latency -1", ("oaradmin", "links", "set", "red", "blue", "--latency", "-1", "--bandwidth", "1")),
    Typed(2, "--bandwidth 0", ("oaradmin", "links", "set", "red", "blue", "--latency", "1", "--bandwidth", "0")),
    Typed(2, "nan", ("oaradmin", "links", "set", "red", "blue", "--latency", "nan", "--bandwidth", "1")),
    Typed(4, "red", ("oaradmin", "links", "delete", "red", "blue")),
]
RESIZES = [
    Typed(2, "no change", ("oarresize", "JOB", "two")),
    Typed(2, "no change", ("oarresize", "JOB", "+-1")),
    Typed(2, "revocable", ("oarresize", "JOB", "-n3", "--revocable")),
    Typed(4, "nowhere", ("oarresize", "JOB", "+1@nowhere")),
    Typed(3, "hosts of cluster", ("oarresize", "JOB", "+99@all#1")),
    Typed(4, "n77", ("oarresize", "JOB", "-n77")),
    Typed(3, "first host", ("oarresize", "JOB", "-n2")),
    Typed(4, "999", ("oarresize", "999", "+1")),
    Typed(5, "", ("oarresize", "JOB", "+1@all#1"), NOBODY),
    Typed(3, "launcher_host", ("oarsub", "--launcher", "/bin/true", "sleep 1")),
]


@pytest.fixture
def running(connection: Connection, cluster_environment: dict[str, str]) -> Iterator[GatewayProcess]:
    """A gateway and a negotiator that a fast launcher does not annoy."""
    build(connection)
    environment = {**cluster_environment, **settings(), "TZ": "UTC"}
    with gateway(environment, workers=2) as found, negotiator(environment, found, message_rate=1000):
        yield found


def ill_refused(one: LauncherProcess, said: Said) -> list[str]:
    """Say something and hear why it is refused; return what is wrong with the answer."""
    one.say(said.message, **said.fields)
    answer = one.hear()
    if answer["message"] != "refused":
        return [f"{said}: {answer}"]
    found = answer["of"], answer["code"], answer.get("tag"), answer["reason"].count("\n")
    well = found == (said.message, said.code, said.fields.get("tag"), 0) and said.words in answer["reason"]
    return [] if well else [f"{said}: {answer}"]


def ill_ended(running: GatewayProcess, typed: Typed, job: str) -> list[str]:
    """Run a command; return what is wrong with its end."""
    result = running.run(*(job if word == "JOB" else word for word in typed.command), uid=typed.uid)
    found = result.status, result.out, result.err.count("\n")
    return [] if found == (typed.status, "", 1) and typed.words in result.err else [f"{typed}: {result}"]


def test_bad_messages_and_commands_are_refused_in_one_line_and_change_nothing(
    running: GatewayProcess, connection: Connection, record_property: Callable[[str, object], None]
) -> None:
    one = launcher(running)
    before = contents(connection)
    record_property("counts", f"{len(BEFORE) + len(AFTER)} bad messages, {len(COMMANDS)} bad commands")
    assert [wrong for said in BEFORE for wrong in ill_refused(one, said)] == []
    assert contents(connection) == before
    one.say("subscribe")
    job = str(one.hear("subscribed")["job"])
    one.hear("changeNotify")
    before = contents(connection)
    assert [wrong for said in AFTER for wrong in ill_refused(one, said)] == []
    assert [wrong for typed in COMMANDS for wrong in ill_ended(running, typed, job)] == []
    assert contents(connection) == before
    assert len(BEFORE) + len(AFTER) + len(COMMANDS) >= 30
    one.say("ping")
    one.hear("pong")


def test_bad_changes_of_a_running_job_are_refused_in_one_line_and_change_nothing(
    running: GatewayProcess, connection: Connection
) -> None:
    one = launcher(running)
    one.say("subscribe", filter={"properties": "host = 'n2'"})
    job = one.hear("subscribed")["job"]
    one.hear("changeNotify")
    one.say("request", tag=1, hosts={"all#1": 1}, walltime=600)
    state = "SELECT state FROM applications"
    until(lambda: connection.execute(state).fetchone() == ("RequestSent",), "the request is stored")
    run_pass(connection)
    assert one.hear("startNotify")["names"] == {"all#1": ["n2"]}
    before = contents(connection)
    assert [wrong for said in RUNNING for wrong in ill_refused(one, said)] == []
    assert [wrong for typed in RESIZES for wrong in ill_ended(running, typed, str(job))] == []
    assert contents(connection) == before


def test_without_a_negotiator_the_command_says_so(connection: Connection, cluster_environment: dict[str, str]) -> None:
    build(connection)
    with gateway({**cluster_environment, **settings()}, workers=1) as found:
        result = found.run("oarnegotiate", stdin='{"message": "subscribe"}\n')
    assert (result.status, result.out, result.err.count("\n")) == (6, "", 1), result
