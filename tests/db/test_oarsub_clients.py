"""Scripts and calls as dask-jobqueue, Nextflow and submitit's OAR plug-in make them, in processes of their own."""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path

import pytest

from tests.harness.oarsub_cluster import Connection, build, process
from tests.harness.sample_cluster import ME

pytestmark = pytest.mark.db


@pytest.fixture
def environment(connection: Connection, cluster_environment: dict[str, str]) -> dict[str, str]:
    build(connection)
    return cluster_environment


def test_nextflow_script(connection: Connection, environment: dict[str, str], tmp_path: Path) -> None:
    work = tmp_path / "work" / "4a"
    work.mkdir(parents=True)
    script = work / ".command.run"
    script.write_text(
        "#!/bin/bash\n"
        f"#OAR -d {work}\n"
        "#OAR -n nf-align_(2)\n"
        f"#OAR -O {work}/.command.out\n"
        f"#OAR -E {work}/.command.err\n"
        '#OAR -p "mem>16"\n'
        "#OAR -l /nodes=1/core=2,walltime=00:30:00\n"
        "#OAR -q default\n"
        "#OAR -t idempotent \n"
        "# NEXTFLOW TASK: align (2)\n"
        "set -e\n",
        encoding="utf-8",
    )
    script.chmod(0o700)
    result = process(environment, "oarsub", "-S", "./.command.run", cwd=work)
    assert (result.status, result.err) == (0, "")
    (job,) = [found[1] for line in result.out.splitlines() if (found := re.fullmatch(r"OAR_JOB_ID=(\d+)", line))]
    assert connection.execute(
        "SELECT job_id::text, user_name, job_name, command, launching_directory, stdout_path, stderr_path, types"
        " FROM jobs"
    ).fetchall() == [
        (
            *(job, ME, "nf-align_(2)", "./.command.run", str(work)),
            *(f"{work}/.command.out", f"{work}/.command.err", ["idempotent"]),
        )
    ]
    assert connection.execute("SELECT walltime FROM moldable_descriptions").fetchall() == [(timedelta(minutes=30),)]


def test_dask_call_with_an_inline_script(connection: Connection, environment: dict[str, str]) -> None:
    inline = "\n/usr/bin/python3 -m distributed.cli.dask_worker tcp://10.0.0.1:1 --name dask-worker --nthreads 1\n"
    options = ["-n", "dask-worker", "--project", "p", "-l", "/nodes=1/core=2,walltime=00:10:00", "-p", "mem>=16"]
    result = process(environment, "oarsub", *options, "-t", "besteffort", inline)
    assert (result.status, result.err) == (0, "")
    found = re.search(r"OAR_JOB_ID=(?P<job_id>\d+)", result.out)
    assert found is not None
    assert connection.execute("SELECT job_id::text, command, queue_name FROM jobs").fetchall() == [
        (found["job_id"], inline, "besteffort")
    ]


def test_submitit_array(connection: Connection, environment: dict[str, str], tmp_path: Path) -> None:
    logs = f"{tmp_path}/%jobid%_0_log"
    result = process(
        environment,
        *(
            "oarsub",
            "--array",
            "3",
            "-l",
            "/nodes=1,walltime=0:10",
            "-n",
            "submitit",
            "-O",
            f"{logs}.out",
            "-E",
            f"{logs}.err",
        ),
        "export SUBMITIT_EXECUTOR=oar; python3 -u -m submitit.core._submit logs",
    )
    assert (result.status, result.err) == (0, "")
    found = re.search(r"OAR_JOB_ID=(?P<id>[0-9]+)", result.out)
    assert found is not None
    assert connection.execute("SELECT array_id::text, array_index, stdout_path FROM jobs ORDER BY 2").fetchall() == [
        (found["id"], index, f"{logs}.out") for index in (1, 2, 3)
    ]
