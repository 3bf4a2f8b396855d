"""The inbox, the packed agent, line reading, nodes of several modes."""

from __future__ import annotations

import ast
import contextlib
import os
import select
import signal
import subprocess
import sys
import threading
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest

from oarpy.transport.agent.job import processes
from oarpy.transport.agent.job.tombstones import Tombstones
from oarpy.transport.bundle import agent_arguments, agent_command, agent_modules, agent_program
from oarpy.transport.inbox import Inbox
from oarpy.transport.local import PipeStream
from oarpy.transport.node import ChannelConfig, NodeAddress
from oarpy.wire.fields import environ
from oarpy.wire.lines import Lines
from oarpy.wire.messages import AgentError, Report


@pytest.fixture
def inbox() -> Iterator[Inbox]:
    inbox = Inbox()
    yield inbox
    inbox.close()


def _readable(inbox: Inbox) -> bool:
    return bool(select.select([inbox], [], [], 0)[0])


def test_an_inbox_is_readable_while_something_waits(inbox: Inbox) -> None:
    assert inbox.drain() == []
    assert not _readable(inbox)
    inbox.put("a", [])
    assert not _readable(inbox)
    inbox.put("a", [AgentError("1"), AgentError("2")])
    inbox.put("b", [AgentError("3")])
    assert _readable(inbox)
    assert inbox.drain() == [("a", AgentError("1")), ("a", AgentError("2")), ("b", AgentError("3"))]
    assert not _readable(inbox)


def test_an_inbox_takes_from_many_threads_and_keeps_the_order_of_each(inbox: Inbox) -> None:
    def put(name: str) -> None:
        for number in range(500):
            inbox.put(name, [AgentError(str(number))])

    threads = [threading.Thread(target=put, args=(name,)) for name in "abcd"]
    for thread in threads:
        thread.start()
    arrived: list[tuple[str, Report]] = []
    while len(arrived) < 2000:
        select.select([inbox], [], [], 5)
        arrived += inbox.drain()
    for thread in threads:
        thread.join()
    for name in "abcd":
        assert [report for sender, report in arrived if sender == name] == [AgentError(str(n)) for n in range(500)]


def test_a_closed_inbox_drops_what_comes() -> None:
    inbox = Inbox()
    inbox.close()
    inbox.close()
    inbox.put("a", [AgentError("late")])
    assert inbox.drain() == []


def test_the_agent_uses_the_grammar_and_the_library_of_python_3_9() -> None:
    _, packed = agent_modules()
    for name, (source, _) in packed.items():
        tree = ast.parse(source, name, feature_version=(3, 9))
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom):
                modules = [node.module or ""]
            elif isinstance(node, ast.Import):
                modules = [alias.name for alias in node.names]
            else:
                continue
            for module in modules:
                ours = module.startswith("oarpy.transport.agent") or module in packed
                assert ours or module.split(".")[0] in sys.stdlib_module_names, (name, module)


def test_the_command_survives_a_shell() -> None:
    node = NodeAddress("n", "/state dir/it's", python="/opt/my python/bin/python3")
    program = agent_program(node, ChannelConfig())
    shown = subprocess.run(
        ["sh", "-c", agent_command(node, program).replace("exec ", "printf '%s\\0' ", 1)],
        capture_output=True,
        check=True,
    )
    assert shown.stdout.decode().split("\0")[:-1] == agent_arguments(node, program)
    assert b"/state dir/it's" in program


def test_lines_are_put_together_and_long_ones_dropped() -> None:
    reading, writing = os.pipe()
    lines = Lines(reading, maximum=10)

    def after(content: bytes) -> list[bytes | None] | None:
        os.write(writing, content)
        return lines.read()

    try:
        assert after(b"ab") == []
        assert after(b"c\n\nd") == [b"abc", b""]
        assert after(b"e" * 9) == []
        assert after(b"\n") == [b"d" + b"e" * 9]
        assert after(b"f" * 11) == []
        assert after(b"g" * 11) == []
        assert after(b"\nh\n") == [None, b"h"]
    finally:
        os.close(writing)
    assert lines.read() is None
    os.close(reading)


def test_offspring_is_what_a_look_at_all_processes_finds() -> None:
    command = ["sh", "-c", "sh -c 'sleep 60 & echo; wait' & wait"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True) as shell:
        assert shell.stdout is not None
        shell.stdout.readline()  # from then on all three are there
        try:
            below = {shell.pid, *processes.descendants(shell.pid)}
            assert len(below) == 3
            assert below <= set(processes.offspring())
        finally:
            os.killpg(shell.pid, signal.SIGKILL)


def test_reading_from_a_local_agent_takes_no_more_memory_than_arrives(tmp_path: Path) -> None:
    """A buffer made for each message and shrunk to its size left holes in the memory of a launcher, which grew."""
    chatty = tmp_path / "python"
    chatty.write_text("#!/bin/sh\nhead -c 4000 /dev/zero; cat > /dev/null\n")
    chatty.chmod(0o755)
    stream = PipeStream(NodeAddress("n1", str(tmp_path), python=str(chatty)), b"")
    read = 0
    tracemalloc.start()
    try:
        while read < 4000:
            read += len(stream.read())
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
        stream.end_writing()
        stream.finish()
    assert 4000 <= most < 10_000


def test_what_an_agent_forgot_itself_it_need_not_read_back(tmp_path: Path) -> None:
    mine, other = Tombstones(str(tmp_path), 3), Tombstones(str(tmp_path), 3)
    mine.add(["1.1", "2.1"])
    assert "1.1" in mine
    assert "2.1" in mine
    other.refresh()
    assert "2.1" in other
    other.add(["3.1"])
    mine.add(["4.1"])  # beside what the other one wrote: all of it is read
    mine.refresh()
    assert all(key in mine for key in ("1.1", "2.1", "3.1", "4.1"))
    (day,) = tmp_path.iterdir()
    with day.open("a") as file:
        file.write("\n5.")  # torn by a crash
    mine.add(["6.1"])
    mine.refresh()
    other.refresh()
    for one in (mine, other):
        assert "6.1" in one
        assert "5.6" not in one
        assert "5.1" not in one


@pytest.mark.parametrize(
    ("variables", "good"),
    [
        ({"A": "1", "B": ""}, True),
        ({"A": "é", "B": "\udce9"}, True),
        ({"": "1"}, False),
        ({"A=B": "1"}, False),
        ({"É=B": "1"}, False),
        ({"A": "1\0"}, False),
        ({"A": "é\0"}, False),
        ({"A": 1}, False),
        ({"A": "\ud800"}, False),
        (["A"], False),
    ],
)
def test_only_what_an_environment_can_hold_is_one(variables: object, good: bool) -> None:
    expected = contextlib.nullcontext() if good else pytest.raises((TypeError, ValueError))
    with expected:
        assert environ(variables) == variables


@pytest.mark.parametrize("size", [0, 65_000, 65_520, 65_530, 66_000, 200_000])
def test_a_marked_process_is_found_however_large_its_environment(size: int) -> None:
    """The mark is the last entry; with 65,520 bytes before it, it is half in the first piece that is read."""
    mark = f"test-{os.getpid()}/{size}/1"
    filling = {f"F{number}": "x" * min(size - number * 60_000, 60_000) for number in range(-(-size // 60_000))}
    variables = {**filling, processes.MARK: mark}
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, env=variables) as process:
        found = processes.marked([mark], set())
    assert found == {mark: [process.pid]}


def test_a_process_that_begins_another_program_is_looked_at_again(monkeypatch: pytest.MonkeyPatch) -> None:
    read = processes._environment
    looks: list[int] = []

    def environment(pid: int) -> bytes:
        if pid != process.pid:
            return read(pid)
        looks.append(pid)
        return b"" if len(looks) < 2 else read(pid)

    mark = f"test-{os.getpid()}/again/1"
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, env={processes.MARK: mark}) as process:
        monkeypatch.setattr(processes, "_environment", environment)
        assert processes.marked([mark], set()) == {mark: [process.pid]}


def test_a_process_may_have_no_environment_at_all() -> None:
    mark = f"test-{os.getpid()}/none/1"
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, env={}):
        assert processes.marked([mark], set()) == {}
