"""``oarsub`` from the options to the rows."""

from __future__ import annotations

import json
import os
from datetime import timedelta
from pathlib import Path

import pytest

from tests.harness.oarsub_cluster import Connection, Submitter
from tests.harness.sample_cluster import ME, add_job, add_nodes

pytestmark = [pytest.mark.db, pytest.mark.kept]


def test_one_job(connection: Connection, oarsub: Submitter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GREETING", "h\u00e9llo\n")
    result = oarsub("sleep 1")
    assert (result.status, result.out, result.err) == (0, "OAR_JOB_ID=1\n", "")
    row = connection.execute(
        "SELECT user_name, project, queue_name, job_name, command, launching_directory, stdout_path, stderr_path,"
        " state, array_id, array_index, types, kind, message, properties FROM jobs"
    ).fetchall()
    files = ("OAR.%jobid%.stdout", "OAR.%jobid%.stderr")
    message = "R=1,W=2:0:0,J=B"
    assert row == [
        (
            *(ME, "default", "default", "", "sleep 1", str(tmp_path), *files, "Waiting"),
            *(1, 1, [], "PASSIVE", message, "drain = 'NO'"),
        )
    ]
    ((environment, typed, request),) = connection.execute(
        "SELECT environment, initial_request, request FROM submissions"
    )
    mask = os.umask(0o022)
    os.umask(mask)
    assert environment == {**os.environ, "OARPY_UMASK": f"{mask:04o}"}
    assert environment["GREETING"] == "h\u00e9llo\n"
    assert typed == "oarsub 'sleep 1'"
    assert request["command"] == "sleep 1"
    assert "environment" not in request


def test_every_option_is_stored(connection: Connection, oarsub: Submitter, tmp_path: Path) -> None:
    earlier = oarsub.job_id("date")
    (tmp_path / "work").mkdir()
    job = oarsub.job_id(
        *(
            "-l",
            "{mem > 8}/nodes=2/core=1+{type = 'licence'}/resource_id=1,walltime=0:30:0",
            "-l",
            "/nodes=1,walltime=1h",
        ),
        *(
            "-p",
            "mem < 99 OR mem IS NULL",
            "-q",
            "admin" if ME == "root" else "default",
            "-t",
            "idempotent",
            "-n",
            "my name",
        ),
        *("--project", "p1", "-d", f"{tmp_path}/work", "-O", "out.%jobid%", "-E", "err", "-a", f"ok:{earlier}"),
        *("--checkpoint", "60", "--signal", "10", "--notify", "[END]mail:me@site.org", "--hold", "run", "a b"),
    )
    assert connection.execute(
        "SELECT job_name, project, types, command, launching_directory, stdout_path, stderr_path, checkpoint,"
        " checkpoint_signal, notify, state, message FROM jobs WHERE job_id = %s",
        (job,),
    ).fetchall() == [
        (
            *("my name", "p1", ["idempotent"], "run 'a b'", f"{tmp_path}/work", "out.%jobid%", "err"),
            *(timedelta(seconds=60), 10, "[END]mail:me@site.org", "Hold"),
            f"R=3,W=0:30:0,J=B,N=my name,{'Q=admin,' if ME == 'root' else ''}P=p1,T=idempotent",
        )
    ]
    assert connection.execute("SELECT job_id, required_job_id, outcome FROM job_dependencies").fetchall() == [
        (job, earlier, "ok")
    ]
    assert connection.execute(
        "SELECT m.position, m.walltime, g.position, g.filter, d.position, d.level, d.count"
        " FROM jobs JOIN moldable_descriptions m USING (submission_id)"
        " JOIN resource_groups g ON g.moldable_id = m.moldable_id"
        " JOIN resource_descriptions d USING (group_id) WHERE job_id = %s ORDER BY 1, 3, 5",
        (job,),
    ).fetchall() == [
        (0, timedelta(minutes=30), 0, "(mem > 8) AND (type = 'default')", 0, "nodes", 2),
        (0, timedelta(minutes=30), 0, "(mem > 8) AND (type = 'default')", 1, "core", 1),
        (0, timedelta(minutes=30), 1, "type = 'licence'", 0, "resource_id", 1),
        (1, timedelta(hours=1), 0, "type = 'default'", 0, "nodes", 1),
    ]


def test_array(connection: Connection, oarsub: Submitter) -> None:
    earlier = oarsub.job_id("date")
    result = oarsub("--array", "3", "-n", "many", "-a", str(earlier), "date")
    assert result.out == "OAR_JOB_ID=2\nOAR_JOB_ID=3\nOAR_JOB_ID=4\nOAR_ARRAY_ID=2\n"
    assert connection.execute(
        "SELECT job_id, array_id, array_index, command, stdout_path FROM jobs WHERE job_id > 1 ORDER BY 1"
    ).fetchall() == [(2 + i, 2, 1 + i, "date", "OAR.many.%jobid%.stdout") for i in range(3)]
    assert connection.execute(
        "SELECT job_id, required_job_id, outcome FROM job_dependencies ORDER BY 1"
    ).fetchall() == [(job, earlier, "any") for job in (2, 3, 4)]
    assert connection.execute("SELECT count(*) FROM submissions").fetchone() == (2,)


def test_array_of_parameters(connection: Connection, oarsub: Submitter, tmp_path: Path) -> None:
    (tmp_path / "params").write_text("# first, second\n1 one\n\n\"\"\n2 'two words' # tail\n", encoding="utf-8")
    result = oarsub("--array-param-file", "params", "./run -v")
    assert result.out == "OAR_JOB_ID=1\nOAR_JOB_ID=2\nOAR_JOB_ID=3\nOAR_ARRAY_ID=1\n"
    assert connection.execute("SELECT array_index, command FROM jobs ORDER BY 1").fetchall() == [
        (1, "./run -v 1 one"),
        (2, "./run -v"),
        (3, "./run -v 2 'two words'"),
    ]


def test_array_is_written_set_wise(connection: Connection, oarsub: Submitter) -> None:
    assert len(oarsub.job_ids("--array", "10000", "date")) == 10_000
    assert connection.execute("SELECT count(*), min(array_index), max(array_index) FROM jobs").fetchone() == (
        10_000,
        1,
        10_000,
    )
    # each writing statement on its own would be a transaction of its own
    assert connection.execute("SELECT count(DISTINCT xmin::text) FROM jobs").fetchone() == (1,)


def test_script_options(connection: Connection, oarsub: Submitter, tmp_path: Path) -> None:
    script = tmp_path / "job.sh"
    script.write_text(
        "#!/bin/sh\n#OAR -l /nodes=2,walltime=0:10:0\n#OAR -n from script\n#OAR -t idempotent\n"
        "#OAR --project its\ndate\n",
        encoding="utf-8",
    )
    refused = oarsub("-S", "./job.sh one")
    assert (refused.status, refused.err) == (2, "oarsub: script './job.sh' is not executable (chmod +x it)\n")
    script.chmod(0o755)
    result = oarsub("-S", "-n", "typed", "-t", "no_quotas", "-l", "/nodes=1", "./job.sh one 'two three'")
    assert result.out == (
        "# Warning: name 'typed' of the command line wins over 'from script' of the script\nOAR_JOB_ID=1\n"
    )
    assert connection.execute("SELECT job_name, project, types, command FROM jobs").fetchall() == [
        ("typed", "its", ["no_quotas", "idempotent"], "./job.sh one 'two three'")
    ]
    assert connection.execute("SELECT walltime FROM moldable_descriptions ORDER BY position").fetchall() == [
        (timedelta(hours=2),),
        (timedelta(minutes=10),),
    ]
    ((typed,),) = connection.execute("SELECT initial_request FROM submissions")
    assert typed.endswith(
        "; #OAR -l /nodes=2,walltime=0:10:0; #OAR -n from script; #OAR -t idempotent; #OAR --project its"
    )


def test_walltime_alone_takes_the_default_resources(connection: Connection, oarsub: Submitter) -> None:
    oarsub.job_id("-l", "walltime=0:5:0", "date")
    assert connection.execute("SELECT walltime FROM moldable_descriptions").fetchall() == [(timedelta(minutes=5),)]
    assert connection.execute("SELECT level, count FROM resource_descriptions").fetchall() == [("resource_id", 1)]


def test_json(oarsub: Submitter) -> None:
    result = oarsub("-J", "--array", "2", "date")
    assert json.loads(result.out) == {
        "job_id": 1,
        "array_id": 1,
        "job_ids": [1, 2],
        "notes": [],
        "warnings": [],
    }


def test_notes_of_rules_come_as_they_are(oarsub: Submitter) -> None:
    result = oarsub("-t", "besteffort", "date")
    assert result.out == "type besteffort: the job goes to queue besteffort\nOAR_JOB_ID=1\n"
    assert json.loads(oarsub("-J", "-t", "besteffort", "date").out)["notes"] == [
        "type besteffort: the job goes to queue besteffort"
    ]


def test_verbose_shows_what_each_rule_changed(oarsub: Submitter) -> None:
    lines = oarsub("-v", "date").out.splitlines()
    place = next(number for number, line in enumerate(lines) if line.startswith("# rule default_queue "))
    assert lines[place + 1] == "#   queue: None -> 'default'"
    assert lines[-1] == "OAR_JOB_ID=1"
    assert all(line.startswith("# ") for line in lines[:-1])


def test_verbose_refusal_shows_the_trace(connection: Connection, oarsub: Submitter) -> None:
    connection.execute(
        "INSERT INTO admission_rules (name, priority, rule_text) VALUES ('broken', 90, E'x = 1\\ny = x / 0\\n')"
    )
    result = oarsub("-v", "date")
    assert result.status == 3
    assert result.err.count("\n") == 1
    assert "broken" in result.err
    assert "line 2" in result.err
    assert "Traceback" not in result.err
    assert any(line.startswith("#   refused: ") for line in result.out.splitlines())


def test_impossible_alternative_is_a_warning_while_another_is_possible(
    connection: Connection, oarsub: Submitter
) -> None:
    result = oarsub("-l", "/nodes=50", "-l", "/nodes=2", "date")
    assert result.status == 0
    assert result.out.startswith("# Warning: alternative 1 can never run: needs 50 nodes, 4 exist\n")
    assert connection.execute("SELECT message FROM jobs").fetchall() == [("R=8,W=2:0:0,J=B",)]


@pytest.mark.parametrize(
    ("request_text", "resources"),
    [
        ("/nodes=4", 16),
        ("nodes=2/cpu=1", 4),
        ("/cpu=8", 16),
        ("/core=3", 3),
        ("/nodes=ALL", 16),
        ("/nodes=BEST/core=1", 4),
        ("/nodes=BESTHALF", 8),
        ("{mem >= 24}/nodes=2", 8),
        ("{type = 'licence'}/resource_id=3", 3),
        ("/nodes=1/core=2+{type = 'licence'}/resource_id=3", 5),
        ("/nodes=3+/nodes=1", 16),
        ("{mem = 16}/nodes=1+{mem > 8}/nodes=2", 12),
    ],
)
def test_possible_requests_and_what_they_take(
    connection: Connection, oarsub: Submitter, request_text: str, resources: int
) -> None:
    oarsub.job_id("-l", request_text, "date")
    ((message,),) = connection.execute("SELECT message FROM jobs")
    assert message.split(",")[0] == f"R={resources}"


@pytest.mark.parametrize(
    ("request_text", "reason"),
    [
        ("/nodes=5", "needs 5 nodes, 4 exist"),
        ("/nodes=2/core=5", "needs 5 cores in one node, 4 exist"),
        ("/nodes=1/cpu=3/core=1", "needs 3 cpus with /core=1 in one node, 2 exist"),
        ("/nodes=5/core=1", "needs 5 nodes with /core=1, 4 exist"),
        ("{mem > 16}/nodes=3", "needs 3 nodes, 2 exist among those that meet mem > 16 ("),
        ("{mem > 1000}/nodes=1", "no resource meets mem > 1000 ("),
        ("{mem > 1000}/nodes=7", "needs 7 nodes, 4 exist ("),
        ("/gpu=1", "never run: no resource has gpu ("),
        ("{type = 'licence'}/resource_id=4", "needs 4 resources, 3 exist"),
        ("/nodes=3+/nodes=2", "together"),
        ("{mem > 16}/nodes=1+{mem > 16}/nodes=2", "together"),
    ],
)
def test_requests_that_can_never_run(connection: Connection, oarsub: Submitter, request_text: str, reason: str) -> None:
    result = oarsub("-l", request_text, "date")
    assert result.status == 3
    assert reason in result.err
    assert connection.execute("SELECT count(*) FROM jobs").fetchone() == (0,)


def test_name_with_odd_characters_does_not_reach_the_file_names(connection: Connection, oarsub: Submitter) -> None:
    oarsub.job_id("-n", "../a (1)/b", "date")
    assert connection.execute("SELECT job_name, stdout_path FROM jobs").fetchall() == [
        ("../a (1)/b", "OAR..._a__1__b.%jobid%.stdout")
    ]


def test_dependency_on_the_job_of_another(connection: Connection, oarsub: Submitter) -> None:
    other = add_job(connection, "Terminated", user="somebody", resources=add_nodes(connection, "n9"))
    job = oarsub.job_id("-a", f"notok:{other}", "date")
    assert connection.execute("SELECT job_id, required_job_id, outcome FROM job_dependencies").fetchall() == [
        (job, other, "notok")
    ]


@pytest.mark.parametrize("kind", ["noop", "noop=standby"])
def test_noop_needs_no_command(connection: Connection, oarsub: Submitter, kind: str) -> None:
    oarsub.job_id("-t", kind)
    assert connection.execute("SELECT command, types FROM jobs").fetchall() == [("", [kind])]


@pytest.mark.parametrize("kind", ["deploy", "cosystem=standby"])
def test_types_that_run_on_a_host_of_their_own_are_not_offered(oarsub: Submitter, kind: str) -> None:
    result = oarsub("-l", "/nodes=1", "-t", kind, "true")
    assert result.status == 3
    assert f"job type {kind.partition('=')[0]} is not offered" in result.err


def test_environment_that_is_not_text_is_left_out(
    connection: Connection, oarsub: Submitter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(os.environ, "ODD", "a\udc80")
    result = oarsub("date")
    assert result.out == "# Warning: environment variable 'ODD' is not UTF-8 and is left out\nOAR_JOB_ID=1\n"
    ((environment,),) = connection.execute("SELECT environment FROM submissions")
    assert "ODD" not in environment


def test_resubmit(connection: Connection, oarsub: Submitter) -> None:
    job = oarsub.job_id("-n", "again", "-l", "/nodes=2", "date")
    dependant = oarsub.job_id("-a", f"ok:{job}", "date")
    connection.execute("UPDATE jobs SET state = 'Error', ended_at = now() WHERE job_id = %s", (job,))
    copy = oarsub.job_id("--resubmit", str(job))
    assert connection.execute(
        "SELECT job_name, command, state, resubmit_of, array_id, array_index, exit_status, started_at, message,"
        " submission_id = (SELECT submission_id FROM jobs WHERE job_id = %s) FROM jobs WHERE job_id = %s",
        (job, copy),
    ).fetchall() == [("again", "date", "Waiting", job, copy, 1, None, None, "R=8,W=2:0:0,J=B,N=again", True)]
    assert connection.execute("SELECT job_id, required_job_id, outcome FROM job_dependencies").fetchall() == [
        (dependant, copy, "ok")
    ]


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("exit code 3", "resubmission of 1"),
        ("R=8,W=2:0:0,J=B,T=idempotent; out of memory on n2", "R=8,W=2:0:0,J=B,T=idempotent"),
    ],
)
def test_how_the_old_job_ended_is_no_message_of_its_copy(
    connection: Connection, oarsub: Submitter, message: str, expected: str
) -> None:
    job = oarsub.job_id("date")
    connection.execute(
        "UPDATE jobs SET state = 'Error', ended_at = now(), message = %s WHERE job_id = %s", (message, job)
    )
    copy = oarsub.job_id("--resubmit", str(job))
    assert connection.execute("SELECT message FROM jobs WHERE job_id = %s", (copy,)).fetchall() == [(expected,)]


def test_a_member_of_an_array_keeps_its_place_when_it_is_repeated(connection: Connection, oarsub: Submitter) -> None:
    jobs = oarsub.job_ids("--array", "3", "date")
    connection.execute("UPDATE jobs SET state = 'Error', ended_at = now() WHERE job_id = %s", (jobs[1],))
    copy = oarsub.job_id("--resubmit", str(jobs[1]))
    place = connection.execute("SELECT array_id, array_index FROM jobs WHERE job_id = %s", (copy,)).fetchall()
    assert place == [(jobs[0], 2)]


def test_a_job_may_be_nice(connection: Connection, oarsub: Submitter) -> None:
    jobs = [oarsub.job_id("--nice", "7", "date"), oarsub.job_id("--nice=1000", "date"), oarsub.job_id("date")]
    assert connection.execute("SELECT job_id, nice FROM jobs ORDER BY 1").fetchall() == [
        *zip(jobs, (7, 1000, 0), strict=True)
    ]
    connection.execute("UPDATE jobs SET state = 'Error', ended_at = now() WHERE job_id = %s", (jobs[0],))
    again = oarsub.job_id("--resubmit", str(jobs[0]))
    assert connection.execute("SELECT nice FROM jobs WHERE job_id = %s", [again]).fetchall() == [(7,)]


def test_a_signal_may_be_named(connection: Connection, oarsub: Submitter) -> None:
    oarsub.job_id("--checkpoint", "60", "--signal", "USR1", "date")
    assert connection.execute("SELECT checkpoint_signal FROM jobs").fetchall() == [(10,)]


def test_a_script_is_here_or_in_the_path_or_on_the_nodes(
    oarsub: Submitter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("here/a.sh", "path/b.sh"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).touch()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setenv("PATH", f"{tmp_path / 'path'}:{os.environ['PATH']}")
    for words in (("./a.sh",), ("b.sh",), ("-d", str(tmp_path), "./c.sh"), ("sh ./c.sh",)):
        assert oarsub.job_id(*words)
        assert "Warning" not in oarsub(*words).out
    assert "Warning: 'a.sh' is here, but not in PATH: the job needs ./a.sh" in oarsub("a.sh").out
    assert oarsub("./b.sh").status == oarsub("c.sh").status == 2
    assert oarsub.job_id("./b.sh || true")
    assert "Warning: there is no file '/none/c.sh' on this host" in oarsub("/none/c.sh 1").out
    monkeypatch.setenv("PATH", f".:{os.environ['PATH']}")
    assert "Warning" not in oarsub("a.sh").out


def test_options_behind_the_only_word_are_those_of_oarsub(connection: Connection, oarsub: Submitter) -> None:
    Path("a.sh").touch()
    oarsub.job_id("./a.sh", "-n", "mine")
    oarsub.job_id("-n", "x", "--", "./a.sh", "in.txt", "-n", "5", "--array", "2")
    oarsub.job_id("./a.sh in.txt -n 5")
    assert connection.execute("SELECT job_name, command FROM jobs ORDER BY job_id").fetchall() == [
        ("mine", "./a.sh"),
        ("x", "./a.sh in.txt -n 5 --array 2"),
        ("", "./a.sh in.txt -n 5"),
    ]


def test_a_script_without_a_folder(connection: Connection, oarsub: Submitter, tmp_path: Path) -> None:
    (tmp_path / "job.sh").write_text("#!/bin/sh\n#OAR -n here\n", encoding="utf-8")
    (tmp_path / "job.sh").chmod(0o755)
    oarsub.job_id("-S", "job.sh")
    assert connection.execute("SELECT job_name, command FROM jobs").fetchall() == [("here", "./job.sh")]


def test_lines_of_slurm_stand_behind_those_of_oar_and_the_command_line(
    connection: Connection, oarsub: Submitter, tmp_path: Path
) -> None:
    (tmp_path / "job.sh").write_text(
        "#!/bin/sh\n#SBATCH -N 2 -t 90 -J theirs --account=p\n#SBATCH --qos=high\n#OAR -n ours\n", encoding="utf-8"
    )
    (tmp_path / "job.sh").chmod(0o755)
    result = oarsub("-S", "job.sh")
    assert result.err == "oarsub: ./job.sh, line 3: #SBATCH --qos=high: it is left out\n"
    assert oarsub("-S", "-l", "core=1,walltime=0:10:0", "--project", "q", "job.sh").status == 0
    rows = connection.execute("SELECT job_name, project, message FROM jobs ORDER BY job_id").fetchall()
    assert rows == [("ours", "p", "R=2,W=1:30:0,J=B,N=ours,P=p"), ("ours", "q", "R=1,W=0:10:0,J=B,N=ours,P=q")]


def test_a_line_about_resources_that_is_not_understood_refuses_the_script(
    connection: Connection, oarsub: Submitter, tmp_path: Path
) -> None:
    """Unless it is left out on purpose, or the command line has its own resources."""
    (tmp_path / "job.sh").write_text("#!/bin/sh\n#SBATCH --constraint=a100\n#SBATCH --licenses=f\n", encoding="utf-8")
    (tmp_path / "job.sh").chmod(0o755)
    refused = oarsub("-S", "job.sh")
    assert refused.status == 2
    assert refused.err.startswith("oarsub: ./job.sh, line 2: #SBATCH --constraint=a100: write -p ")
    assert connection.execute("SELECT count(*) FROM jobs").fetchone() == (0,)
    for options in (["--ignore-directives"], ["-l", "nodes=1"]):
        taken = oarsub("-S", *options, "job.sh")
        assert taken.status == 0
        assert "line 2: #SBATCH --constraint=a100: it is left out: write -p " in taken.err
        assert "line 3: #SBATCH --licenses=f: it is left out: there is no resource of type f here" in taken.err


def test_version(oarsub: Submitter) -> None:
    result = oarsub("--version")
    assert result.status == 0
    assert result.out.startswith("oarsub of oarpy ")


def test_drained_nodes_exist_all_the_same(connection: Connection, oarsub: Submitter) -> None:
    connection.execute("UPDATE resources SET drain = true")
    job = oarsub.job_id("-l", "/nodes=2", "date")
    assert connection.execute("SELECT properties FROM jobs WHERE job_id = %s", (job,)).fetchall() == [("drain = 'NO'",)]
    assert oarsub("-l", "/nodes=2+/core=1", "date").status == 0
    assert oarsub("-l", "/nodes=9", "date").status == 3
