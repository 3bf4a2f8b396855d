"""What one user, or one command, takes of the gateway has an end: workers, connections, memory, processor time."""

from __future__ import annotations

import os
import pwd
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import suppress
from pathlib import Path

import pytest

from oarpy.wire.frames import CONTENT, Channel, pack, pack_message, read_message
from tests.harness.gateway_process import TIMEOUT, final, gateway, request
from tests.harness.oarsub_cluster import build, settings
from tests.harness.sample_cluster import Connection
from tests.harness.waiting import until

pytestmark = pytest.mark.db

READS_INPUT = ("oaradmissionrules", "add", "mine", "--file", "-")


@pytest.fixture
def environment(connection: Connection, cluster_environment: dict[str, str]) -> dict[str, str]:
    build(connection)
    return {**cluster_environment, **settings()}


def test_input_that_is_not_sent_is_not_waited_for_long(environment: dict[str, str]) -> None:
    with gateway(environment, workers=1, most_workers=1, input_limit=0.5) as running:
        waiting = running.start(*READS_INPUT)
        assert waiting.wait(TIMEOUT) == 6
        assert waiting.stderr is not None
        expected = "standard input did not end within 0.5 s (give a file instead (gateway.input_limit))"
        assert waiting.stderr.read() == f"oaradmissionrules: {expected}\n"
        assert running.answers()


def test_input_that_drips_is_late_as_well(environment: dict[str, str]) -> None:
    with (
        gateway(environment, workers=1, most_workers=1, input_limit=0.5) as running,
        running.connect() as slow,
        ThreadPoolExecutor() as pool,
    ):
        slow.sendall(pack_message(request(*READS_INPUT)))
        channel = Channel(slow)
        assert read_message(channel.receive()[1]).keys() == {"input"}
        answer = pool.submit(final, channel)
        for byte in pack(CONTENT, b"-" * 600):
            with suppress(BrokenPipeError):
                slow.send(bytes([byte]))
            if wait([answer], 0.05).done:
                break
        assert answer.result() == {"exit": 6}, "it ended by itself, and before the input did"
        assert running.answers()


def test_a_user_has_few_workers_that_wait(environment: dict[str, str]) -> None:
    with gateway(environment, workers=2, most_workers=3, waiting_per_user=1) as running:
        waiting = running.start("oarsub", "-r", "2026-12-24 12:00:00", "date")
        assert waiting.stdout is not None
        assert waiting.stdout.readline() == "OAR_JOB_ID=1\n"
        refused = running.run(*READS_INPUT)
        assert refused.status == 6
        assert "1 commands of yours wait already" in refused.err
        second = running.run("oarsub", "-r", "2026-12-24 12:00:00", "date")
        assert second.status == 6
        assert second.out.startswith("OAR_JOB_ID=2\n")
        assert "the job stays" in second.err
        assert running.answers()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can submit as several users")
def test_interactive_waits_of_users_do_not_take_all_connections(
    connection: Connection, environment: dict[str, str]
) -> None:
    """One of each user keeps a connection, of the others one at a time looks."""
    users = [pwd.getpwnam(name).pw_uid for name in ("games", "nobody")]
    with gateway(environment, workers=1, listeners_per_user=1) as running:
        waiting = [running.start("oarsub", "-I", uid=uid) for uid in users for _ in range(4)]

        def are_attached() -> bool:
            shown = "SELECT count(*) FROM jobs WHERE kind = 'INTERACTIVE' AND state = 'Waiting'"
            found = connection.execute(shown).fetchone()
            return found == (len(waiting),) and len(running.workers()) >= 1

        until(are_attached, "all have submitted")
        for one in waiting:
            assert one.stdout is not None
            while "waiting..." not in one.stdout.readline():
                continue
        sessions = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'oarpy oarsub'"
        until(lambda: connection.execute(sessions).fetchone() == (2,), "two keep a connection")
        assert all(one.poll() is None for one in waiting)


def test_a_command_that_wants_too_much_memory_fails_alone(environment: dict[str, str]) -> None:
    with gateway(environment, workers=1) as running:
        assert running.run("oarnodes", "n[1-9]").status == 4
        usual = int(_status(running.workers()[0], "VmSize")) >> 10
    with gateway(environment, workers=1, most_workers=1, memory_limit=usual + 8) as running:
        assert running.run("oarnodes", "n[1-9]").status == 4, "all that it imports is there"
        workers = running.workers()
        done = running.run("oarnodes", "n[1-99999]")
        assert (done.status, done.err) == (1, "oarnodes: the input is too large (MemoryError)\n")
        assert running.answers()
        assert running.workers() == workers


def test_a_command_may_take_a_limited_time_of_the_processor(environment: dict[str, str]) -> None:
    with gateway(environment, workers=1, most_workers=1, processor_limit=7) as running:
        for _ in range(3):
            assert running.answers()
        (worker,) = running.workers()
        limits = Path(f"/proc/{worker}/limits").read_text().splitlines()
        seconds = int(next(line for line in limits if line.startswith("Max cpu time")).split()[3])
        assert 7 < seconds <= 7 + TIMEOUT


def _status(pid: int, name: str) -> str:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(line.split()[1] for line in lines if line.startswith(f"{name}:"))
