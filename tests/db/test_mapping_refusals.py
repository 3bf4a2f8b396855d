"""What bad input about mapped processes gets: one line each, a documented status, nothing changed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from oarpy.frontend.measuring import Unmeasurable, one_rate, steady_rate
from oarpy.processes.rates import steady_rate as page_rate
from tests.harness.oarsub_cluster import Connection, Submitter, contents
from tests.harness.programs import Programs, make_programs
from tests.harness.refusals import Refusal, not_refused

pytestmark = pytest.mark.db


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Programs:
    monkeypatch.chdir(tmp_path)
    made = make_programs(tmp_path)
    (tmp_path / "plain").write_text("no program", encoding="utf-8")
    (tmp_path / "folder").mkdir()
    return made


_RATE = ("--rate", "./rate.sh")
_ONE = ("--iterations", "10", "--sizes", "a", *_RATE, "-l", "core=2")
_ALL = ("--processes", "4", *_ONE)


def sized(sizes: str) -> tuple[str, ...]:
    return ("--processes", "4", "--iterations", "10", "--sizes", sizes, *_RATE, "./program")


def rated(script: str) -> tuple[str, ...]:
    return ("--processes", "4", "--iterations", "10", "--sizes", "a", "--rate", script, "./program")


def iterated(count: str) -> tuple[str, ...]:
    return ("--processes", "4", "--iterations", count, "--sizes", "a", *_RATE, "./program")


# (arguments of oarsub, exit status, what the line must say)
REFUSED: list[Refusal] = [
    (("--processes", "0", *_ONE, "./program"), 2, "--processes '0' is out of range"),
    (("--processes", "-3", *_ONE, "./program"), 2, "--processes"),
    (("--processes", "1e9", *_ONE, "./program"), 2, "'1e9'"),
    (("--processes", "200000", *_ONE, "./program"), 2, "100000"),
    (iterated("0"), 2, "--iterations '0'"),
    (iterated("1e9"), 2, "--iterations '1e9'"),
    (iterated("1000000000"), 2, "--iterations"),
    (sized(","), 2, "is no size"),
    (sized("a,"), 2, "is no size"),
    (sized("a,b,a"), 2, "'a' twice"),
    (sized("a b"), 2, "is no size"),
    (sized("x" * 101), 2, "is no size"),
    (rated("./missing.sh"), 2, "'./missing.sh' is no program"),
    (rated("plain"), 2, "'plain' is no program"),
    (rated("./folder"), 2, "is no program"),
    (("--processes", "4", "./program"), 2, "--processes without --iterations"),
    (("--processes", "4", "--iterations", "9", "--sizes", "a", "./program"), 2, "--processes without --rate"),
    (("--sizes", "a", "./program"), 2, "--sizes without --processes"),
    (("--model", "async", "./program"), 2, "--model without --processes"),
    ((*_ALL, "--model", "fastest", "./program"), 2, "'fastest' is none of sync, async"),
    ((*_ALL, "--model", "os.path", "./program"), 2, "'os.path' is none of"),
    ((*_ALL, "./nothing"), 2, "no program './nothing'"),
    ((*_ALL, "cd / && ./program"), 2, "no program 'cd'"),
    ((*_ALL, "./program", "x" * 1001), 2, "arguments of the program are longer"),
    ((*_ALL, "-l", "core=1", "./program"), 2, "--processes with several -l"),
    ((*_ALL, "--array", "2", "./program"), 2, "--processes with --array"),
    ((*_ALL, "-r", "2035-01-01 12:00", "./program"), 2, "--processes with a reservation"),
    ((*_ALL, "--bag", "2", "./program"), 2, "--bag with --processes"),
    ((*_ALL, "--dry-run", "./program"), 2, "--dry-run with --processes"),
    ((*_ALL, "-I"), 2, "--processes with -I"),
    ((*_ALL, "-l", "core=9999", "./program"), 2, ""),
]
# (arguments of oarrates, exit status, what the line must say)
RATES: list[Refusal] = [
    (("--tell", "1", "--rates", "a=nan"), 4, "measures no rates"),
    (("--tell", "x" * 50, "--rates", "a=1"), 4, "measures no rates"),
    (("--forget", "/nothing"), 4, "no rates of '/nothing'"),
    (("--forget", "/p", "--forget-all"), 2, "--forget with --forget-all"),
    (("--measure",), 2, "--measure is for jobs"),
]


def test_refusals_leave_no_trace(connection: Connection, oarsub: Submitter, programs: Programs) -> None:
    before = contents(connection)
    assert not_refused(oarsub.run, "oarsub", REFUSED) == []
    assert not_refused(oarsub.run, "oarrates", RATES) == []
    assert contents(connection) == before


def test_a_plug_in_that_is_named_and_not_installed_is_refused(
    connection: Connection, oarsub: Submitter, programs: Programs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OARPY_SCHEDULER_PLUGINS", "gone")
    before = contents(connection)
    result = oarsub(*_ALL, "--model", "gone", "./program")
    assert (result.status, "no plug-in 'gone' is installed" in result.err) == (2, True)
    assert contents(connection) == before


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("echo rate nan", "'nan', which is no number"),
        ("echo rate -1", "'-1'"),
        ("echo rate 1e400", "'1e400'"),
        ("echo rate 0", "'0'"),
        ("echo rate", "''"),
        ("echo rate 1 2", "'1 2'"),
        ("exit 3", "ends with status 3"),
        ("exec cat /dev/zero", "prints more than"),
    ],
)
def test_a_script_that_gives_no_rate_is_told(programs: Programs, text: str, words: str) -> None:
    with pytest.raises(Unmeasurable, match=r"bad\.sh a 1") as raised:
        one_rate(programs.script("bad.sh", text), "a", 1)
    assert words in str(raised.value)


def test_what_prints_nothing_is_timed_and_the_last_rate_counts(programs: Programs) -> None:
    assert one_rate(programs.script("silent.sh", "exit 0"), "a", 1) > 0
    assert one_rate(programs.script("said.sh", "echo rate 7; echo rate 8"), "a", 1) == 8


def test_iterations_grow_as_the_page_says() -> None:
    seconds = {1: 1.0, 3: 2.0, 5: 2.7, 10: 5.2}
    assert steady_rate(lambda count: count / seconds[count]) == page_rate(list(seconds.items()), 0.05).rate


def test_a_job_that_measures_runs_the_script_and_tells(programs: Programs) -> None:
    """Without a cluster it cannot tell, and says so in one line."""
    call = "from oarpy.frontend.measuring import told; print(told(['./rate.sh', 'a,b']))"
    done = subprocess.run([sys.executable, "-c", call], capture_output=True, text=True, check=True, cwd=programs.folder)
    assert done.stdout == "['--tell', '', '--rates', 'a=4.0,b=4.0']\n"
