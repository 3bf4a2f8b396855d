"""Each command with which the table of OAR's options was tried does what it is for."""

from __future__ import annotations

import shlex
import subprocess
from itertools import groupby
from pathlib import Path

import pytest

from tests.harness.hand_written import rewrite
from tests.harness.oarsub_cluster import Connection, Submitter, run_pass
from tests.harness.option_table import OptionRow, option_rows

pytestmark = pytest.mark.db

ROOT = Path(__file__).parents[2]

ELSEWHERE = {
    "oarsub -I": "tests/e2e/test_interactive.py",
    "oarsub -C 1": "tests/e2e/test_interactive.py",
    "oarconnect 1": "tests/e2e/test_interactive.py",
    "oarsub -r 'tomorrow 8:00' date": "tests/db/test_oarsub_reservation.py",
    "oarcp file n2:file": "tests/e2e/test_oarsh.py",
    "oarsh -l ann n2 date": "tests/e2e/test_oarsh.py",
}
"""What needs a node or an answer, and the tests that try it."""

SECTIONS = [
    (heading, list(rows))
    for heading, rows in groupby((row for row in option_rows() if row.verdict == "works"), key=lambda row: row.heading)
]


@pytest.fixture
def scene(connection: Connection, oarsub: Submitter, tmp_path: Path) -> None:
    """1 runs, 2 waits, 3 to 5 are an array, 6 is held, 7 has ended, 8 is Finishing for long, 9 and 10 with 11 wait."""
    (tmp_path / "job.sh").write_text("#!/bin/sh\n#OAR -n scanned\ndate\n")
    (tmp_path / "job.sh").chmod(0o755)
    (tmp_path / "lines").write_text("1\n2\n")
    (tmp_path / "properties").write_text("host = 'n2' , core = '8'\nhost = 'n2' , core = '9'\n")
    for name in ("key", "other"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(tmp_path / name)], check=True)
    request = ("-l", "/nodes=1,walltime=1:0:0")
    oarsub.job_id(*request, "sleep 600")
    run_pass(connection)
    oarsub.job_id("-l", "/nodes=3,walltime=1:0:0", "date")
    oarsub.job_ids(*request, "--array", "3", "date")
    oarsub.job_id("--hold", *request, "date")
    ended, finishing = (oarsub.job_id(*request, "date") for _ in range(2))
    oarsub.job_id(*request, "date")
    oarsub.job_ids(*request, "--array", "2", "date")
    for state in ("toLaunch", "Launching", "Running", "Finishing"):
        connection.execute(
            "UPDATE jobs SET state = %s, started_at = CASE WHEN %s = 'Running' THEN now() ELSE started_at END,"
            " moldable_id = (SELECT min(moldable_id) FROM moldable_descriptions m"
            "                WHERE m.submission_id = jobs.submission_id),"
            " walltime = interval '1 hour', final_state = CASE WHEN %s = 'Finishing' THEN 'Terminated' END"
            " WHERE job_id = ANY(%s)",
            [state, state, state, [ended, finishing]],
        )
    connection.execute(
        "UPDATE jobs SET state = 'Terminated', ended_at = now(), exit_status = 0, left_nothing = true"
        " WHERE job_id = %s",
        [ended],
    )
    rewrite(
        connection,
        "UPDATE job_state_logs SET during = tstzrange(now() - interval '1 day', NULL)"
        " WHERE job_id = %s AND upper_inf(during)",
        finishing,
    )


@pytest.mark.usefixtures("scene")
@pytest.mark.parametrize(("heading", "rows"), SECTIONS, ids=[heading for heading, _ in SECTIONS])
def test_each_command_of_the_table_works(
    oarsub: Submitter, tmp_path: Path, heading: str, rows: list[OptionRow], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OARPY_WALLTIME_ENABLED", "true")
    key = (tmp_path / "other").read_text()
    wrong = list[tuple[str, object]]()
    for line in (line for row in rows for line in row.tried):
        if line in ELSEWHERE:
            command, option = line.split()[:2] if line.split()[1].startswith("-") else (line.split()[0], "")
            text = (ROOT / ELSEWHERE[line]).read_text(encoding="utf-8")
            if f'"{command}"' not in text and f'"{option}"' not in text:
                wrong.append((line, ELSEWHERE[line]))
            continue
        command, *arguments = (word.replace("$(cat other)", key) for word in shlex.split(line))
        result = oarsub(*arguments, command=command)
        if result.status != 0:
            wrong.append((line, result))
    assert wrong == []
