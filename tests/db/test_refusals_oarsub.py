"""Bad input to ``oarsub`` and ``oaradmissionrules``: one line, the documented status, and not a row changed."""

from __future__ import annotations

import io
import os
import pwd
import re
from pathlib import Path

import pytest

from tests.harness.oarsub_cluster import Connection, Submitter, contents, process
from tests.harness.sample_cluster import ME, add_job

pytestmark = pytest.mark.db

MEGABYTE = "x" * 1_000_000

# (arguments, exit status, what the line must say); {live}, {theirs}, {old} are jobs, {dir} the current directory.
OARSUB: list[tuple[tuple[str, ...], int, str]] = [
    (("-l", "nodes=0", "date"), 2, "nodes"),
    (("-l", "/nodes=-3", "date"), 2, "-3"),
    (("-l", "/nodes=", "date"), 2, "nodes"),
    (("-l", "/nodes", "date"), 2, "nodes"),
    (("-l", "", "date"), 2, "empty"),
    (("-l", "/nodes=1//core=1", "date"), 2, "level"),
    (("-l", "/nodes=1/nodes=2", "date"), 2, "twice"),
    (("-l", "/nodes=1/network_address=2", "date"), 2, "twice"),
    (("-l", "/nodes=1.5", "date"), 2, "1.5"),
    (("-l", "/nodes=99999999999999999999", "date"), 2, "nodes"),
    (("-l", "/nods=1", "date"), 2, "did you mean nodes"),
    (("-l", "/nodes=1"), 2, "no command (oarsub [OPTIONS] COMMAND; - reads a script from standard input)"),
    (("none.sh",), 2, "there is no file 'none.sh' here"),
    (("./none.py 1 2",), 2, "if the nodes alone have it, -d names their directory"),
    (("-l", "{mem > 4/nodes=1", "date"), 2, "unbalanced"),
    (("-l", "{memm > 4}/nodes=1", "date"), 2, "did you mean mem"),
    (("-l", "{}/nodes=1", "date"), 2, "empty filter"),
    (("-l", "/nodes=1,walltime=0", "date"), 2, "out of range"),
    (("-l", "/nodes=1,walltime=99999999", "date"), 2, "out of range"),
    (("-l", "/nodes=1,walltime=-1", "date"), 2, "duration"),
    (("-l", "/nodes=1,walltime=1,walltime=2", "date"), 2, "twice"),
    (("-l", "/nodes=" + "1" * 200_000, "date"), 2, "characters"),
    (("-l", "/nodes=5", "date"), 3, "needs 5 nodes, 4 exist"),
    (("-l", "/gpu=1", "date"), 3, "no resource"),
    (("-p", "mem >", "date"), 2, "filter"),
    (("-p", "", "date"), 2, "empty"),
    (("-p", "mem = 1; DROP TABLE jobs", "date"), 2, "filter"),
    (("-p", "mem IN (SELECT 1)", "date"), 2, "subselect"),
    (("-p", "pg_sleep(10) IS NULL", "date"), 2, "function"),
    (("-p", "colour = 'red'", "date"), 2, "colour"),
    (("-p", "mem > 1 -- comment", "date"), 2, "comment"),
    (("-p", "mem", "date"), 2, "condition"),
    (("-p", "mem = 'many'", "date"), 2, "many"),
    (("-p", "mem > 1 OR " * 5000 + "mem > 1", "date"), 2, "characters"),
    (("-p", "mem > 10000", "date"), 3, "no resource meets"),
    (("-l", "{mem > 10000}/nodes=1", "-p", "mem > 0", "date"), 3, "no resource meets (mem > 0) AND (mem > 10000) ("),
    (("-l", "nodes=1,core=2", "date"), 2, "core is a level, no amount"),
    (("-l", "/nodes=1/walltime=1", "date"), 2, ",walltime=H:M:S"),
    (("-l", "/nodes=1", "-l", "walltime=1:0:0", "date"), 2, "its -l: -l /nodes=1,walltime=1:0:0"),
    (("-l", "/nodes=4", "walltime=0:10:0", "date"), 2, "a comma is missing: -l /nodes=4,walltime=0:10:0"),
    (("--walltime", "1:0:0", "date"), 2, "-l nodes=1,walltime=1:0:0"),
    (("--time=1:0:0", "date"), 2, "-l nodes=1,walltime=1:0:0"),
    (("-N", "hello", "date"), 2, "-n NAME names the job"),
    (("--ntasks", "4", "date"), 2, "-l core=4"),
    (("-d", "/etc/passwd", "date"), 2, "no directory"),
    (("-",), 2, "no script on standard input"),
    (("-S", "-"), 2, "no script on standard input"),
    (("-S", "windows.sh"), 2, "windows.sh, line 1 ends with a carriage return"),
    (("-S", "two.sh"), 2, "two.sh, line 3: '-t' after the value of -t"),
    (("-S", "early.sh"), 2, "early.sh, line 2: count 0 of level 'nodes'"),
    (("--array-param-file", "quotes", "date"), 2, "line 3 of 'quotes' has an open quote"),
    (("./a.sh", "in.txt", "-n", "5"), 2, "option '-n' after the words './a.sh in.txt'"),
    (("./a.sh", "in.txt", "--verbose"), 2, "option '--verbose' after the words './a.sh in.txt'"),
    (("./a.sh", "-n", "5", "in.txt"), 2, "'in.txt' after the options behind './a.sh'"),
    (("-q", "nowhere", "date"), 4, "nowhere"),
    (("-q", "defalt", "date"), 4, "did you mean default"),
    (("-q", "closed", "date"), 3, "not active"),
    (("-t", "nonsense", "date"), 3, "nonsense"),
    (("-t", "", "date"), 2, "empty"),
    (("-t", "besteffort,idempotent", "date"), 2, "is not one job type (give -t for each)"),
    (("-S", "joined.sh"), 2, "joined.sh, line 2: 'besteffort,noop' is not one job type"),
    (("-p", "host = 'nowhere'", "date"), 3, "no resource meets host = 'nowhere' (oarnodes"),
    (("-n", "n\u00e4me", "date"), 2, "ASCII"),
    (("-n", "a\nb", "date"), 2, "ASCII"),
    (("-n", "x" * 300, "date"), 2, "300"),
    (("--project", "\u03b1", "date"), 2, "--project"),
    (("-d", "relative", "date"), 2, "relative' does not exist"),
    (("-d", "/no/such/directory", "date"), 2, "does not exist"),
    (("-O", "a;b", "date"), 2, "-O"),
    (("-E", "$(date)", "date"), 2, "-E"),
    (("date\0", "-n", "nul"), 2, "NUL"),
    (("date \udc80",), 2, "UTF-8"),
    ((MEGABYTE,), 2, "bytes"),
    (("-n", MEGABYTE, "date"), 2, "characters"),
    ((), 2, "no command"),
    (("",), 2, "no command"),
    (("--unknown", "date"), 2, "--unknown"),
    (("-l",), 2, "-l"),
    (("--array", "0", "date"), 2, "--array"),
    (("--array", "-5", "date"), 2, "--array"),
    (("--array", "many", "date"), 2, "--array"),
    (("--array", "100001", "date"), 2, "100000"),
    (("--array-param-file", "nothing", "date"), 2, "nothing"),
    (("--array-param-file", "empty", "date"), 2, "no line"),
    (("--array-param-file", "params", "--array", "7", "date"), 2, "7"),
    (("-S", "nothing"), 2, "nothing"),
    (("-S", "bad.sh"), 2, "line 2"),
    (("-S", "zero.sh"), 2, "nodes"),
    (("-S", "text"), 2, "not executable"),
    (("-S",), 2, "script"),
    (("-r", "someday", "date"), 2, "someday"),
    (("-r", "2020-01-01 00:00:00", "date"), 2, "past"),
    (("-r", "2036-02-30 00:00:00", "date"), 2, "not a date"),
    (("-r", "now", "--hold", "date"), 2, "--hold"),
    (("-r", "now", "-t", "besteffort", "date"), 3, "besteffort"),
    (("-a", "999999", "date"), 4, "999999"),
    (("-a", "0", "date"), 2, "dependency"),
    (("-a", "maybe:{live}", "date"), 2, "maybe"),
    (("--checkpoint", "-1", "date"), 2, "--checkpoint"),
    (("--checkpoint", "7200", "date"), 2, "7200"),
    (("--checkpoint", "soon", "date"), 2, "soon"),
    (("--signal", "0", "date"), 2, "'0' is not a signal"),
    (("--signal", "99", "date"), 2, "99"),
    (("--notify", "exec:rm -rf /; date", "date"), 2, "--notify"),
    (("--notify", "telex:1", "date"), 2, "telex"),
    (("--resubmit", "{live}"), 2, "Waiting"),
    (("--resubmit", "999999"), 4, "999999"),
    (("--resubmit", "x"), 2, "'x' is not a job id"),
    (("--resubmit", "{old}", "-n", "new"), 2, "--resubmit"),
    (("-t", "inner=999999", "-r", "now", "date"), 3, "999999"),
]

RULES: list[tuple[tuple[str, ...], int, str]] = [
    ((), 2, "ommand"),
    (("burn",), 2, "burn"),
    (("show", "nothing"), 4, "nothing"),
    (("show", "besteffor"), 4, "did you mean besteffort"),
    (("show", "besteffort", "--version", "99"), 4, "99"),
    (("show", "besteffort", "--version", "1", "--history"), 2, "exclude"),
    (("add", "fine"), 2, "--file"),
    (("add", "fine", "--file", "nothing"), 2, "nothing"),
    (("add", "fine", "--file", "broken.py"), 2, "line 1"),
    (("add", "fine", "--file", "empty"), 2, "empty"),
    (("add", "fine", "--file", "binary"), 2, "UTF-8"),
    (("add", "no spaces", "--file", "good.py"), 2, "no spaces"),
    (("add", "besteffort", "--file", "good.py"), 2, "exists"),
    (("add", "fine", "--file", "good.py", "--priority", "-1"), 2, "-1"),
    (("edit", "nothing", "--file", "good.py"), 4, "nothing"),
    (("edit", "besteffort", "--file", "broken.py"), 2, "line 1"),
    (("enable", "nothing"), 4, "nothing"),
    (("disable", "nothing"), 4, "nothing"),
    (("delete", "nothing"), 4, "nothing"),
    (("test", "nothing"), 4, "nothing"),
    (("test", "--file", "good.py"), 2, "NAME"),
    (("test", "--last", "0"), 2, "0"),
    (("test", "--submission", "nothing"), 2, "nothing"),
    (("test", "--submission", "bad.toml"), 2, "colour"),
    (("test", "fine", "--file", "broken.py"), 2, "line 1"),
]

FOR_ADMINS: list[tuple[str, ...]] = [
    ("add", "fine", "--file", "good.py"),
    ("edit", "besteffort", "--file", "good.py"),
    ("enable", "besteffort"),
    ("disable", "besteffort"),
    ("delete", "besteffort"),
    ("load-defaults",),
]


@pytest.fixture
def oarsub(oarsub: Submitter, tmp_path: Path) -> Submitter:
    for name, text in {
        "empty": "\n\n",
        "params": "1\n2\n",
        "bad.sh": "#!/bin/sh\n#OAR --frobnicate 3\n",
        "zero.sh": "#!/bin/sh\n#OAR -l nodes=0\n",
        "windows.sh": "#!/bin/sh\r\ndate\r\n",
        "two.sh": "#!/bin/sh\n\n#OAR -t besteffort -t idempotent\n",
        "joined.sh": "#!/bin/sh\n#OAR -t besteffort,noop\n",
        "early.sh": "#!/bin/sh\n#OAR -l nodes=0\n",
        "quotes": "1\n# don't\n it's\n",
        "good.py": "note('hello')\n",
        "broken.py": "if x\n",
        "bad.toml": "colour = 'red'\n",
    }.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
        (tmp_path / name).chmod(0o755)
    (tmp_path / "text").write_text("#!/bin/sh\n", encoding="utf-8")
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    return oarsub


def one_line(err: str, command: str) -> bool:
    return err.count("\n") == 1 and err.endswith("\n") and err.startswith(f"{command}: ") and len(err) < 600


def test_refusals_leave_no_trace(connection: Connection, oarsub: Submitter, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"\n")))
    jobs = {
        "live": add_job(connection),
        "theirs": add_job(connection, "Error", user="somebody"),
        "old": add_job(connection, "Error"),
    }
    before = contents(connection)
    wrong = []
    for command, table in (("oarsub", OARSUB), ("oaradmissionrules", RULES)):
        for arguments, status, words in table:
            typed = [word.format(**jobs) if re.search(r"\{(live|theirs|old)\}", word) else word for word in arguments]
            result = oarsub(*typed, command=command)
            if (
                (result.status, result.out) != (status, "")
                or not one_line(result.err, command)
                or words not in result.err
            ):
                wrong.append((command, [word[:80] for word in typed], result.status, result.out, result.err))
    assert wrong == []
    assert contents(connection) == before


def test_what_only_admins_and_owners_may(
    connection: Connection, oarsub: Submitter, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = [add_job(connection, "Error", user=ME), add_job(connection, "Error", user="somebody")]
    nobody = pwd.getpwnam("nobody").pw_uid
    monkeypatch.setattr(os, "getuid", lambda: nobody)
    before = contents(connection)
    for arguments in FOR_ADMINS:
        result = oarsub(*arguments, command="oaradmissionrules")
        assert (result.status, result.out) == (5, "")
        assert one_line(result.err, "oaradmissionrules")
    for job in jobs:
        result = oarsub("--resubmit", str(job))
        assert (result.status, result.out) == (5, "")
        assert one_line(result.err, "oarsub")
    assert contents(connection) == before


def test_refused_user(connection: Connection, oarsub: Submitter, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OARPY_SUBMISSION_REFUSED_USERS", ME)
    result = oarsub("date")
    assert result.status == 3
    assert one_line(result.err, "oarsub")
    assert ME in result.err


def test_environment_does_not_change_who_submits(
    connection: Connection, oarsub: Submitter, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("USER", "LOGNAME", "SUDO_USER", "OARDO_USER"):
        monkeypatch.setenv(name, "somebody")
    oarsub.job_id("date")
    assert connection.execute("SELECT user_name FROM jobs").fetchall() == [(ME,)]


@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        (("oarsub", "-l", "nodes=0", "date"), 2),
        (("oarsub", "-l", "/nodes=5", "date"), 3),
        (("oarsub", "-q", "nowhere", "date"), 4),
        (("oarsub", "--nothing"), 2),
        (("oarsub", "-S", "zero.sh"), 2),
        (("oaradmissionrules", "show", "nothing"), 4),
        (("oaradmissionrules", "add", "fine", "--file", "broken.py"), 2),
    ],
)
def test_real_processes(
    connection: Connection,
    oarsub: Submitter,
    cluster_environment: dict[str, str],
    tmp_path: Path,
    arguments: tuple[str, ...],
    status: int,
) -> None:
    before = contents(connection)
    result = process(cluster_environment, *arguments, cwd=tmp_path)
    assert (result.status, result.out) == (status, "")
    assert one_line(result.err, arguments[0])
    assert contents(connection) == before


def test_no_server(cluster_environment: dict[str, str], tmp_path: Path) -> None:
    environment = {**cluster_environment, "OARPY_DATABASE_URL": f"postgresql:///none?host={tmp_path}"}
    for command in (("oarsub", "date"), ("oaradmissionrules", "list")):
        result = process(environment, *command)
        assert (result.status, result.out) == (6, "")
        assert one_line(result.err, command[0])
