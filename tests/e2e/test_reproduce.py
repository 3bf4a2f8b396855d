"""Experiments of ``oarpy reproduce``: interrupted ones go on, and nothing of what comes out depends on who did it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from oarpy.local_cluster.sandbox import Sandbox, local_nodes, running_sandbox
from tests.harness.made_up_logs import write_logs_of_bags
from tests.harness.waiting import until

ROOT = Path(__file__).resolve().parents[2]

pytestmark = pytest.mark.e2e

QUICK = ("reproduce", "reallocation", "--quick", "--scenario", "feb")
RUNS = 52


def command(folder: Path, *options: str) -> list[str]:
    """Return a quick call that writes below ``folder``."""
    return [os.path.join(os.path.dirname(sys.executable), "oarpy"), *QUICK, "--output", str(folder), *options]


def files(folder: Path) -> dict[str, bytes]:
    """Return all files below a folder, but the seconds."""
    found = (path for path in folder.rglob("*") if path.is_file() and path.name != "timing.json")
    return {str(path.relative_to(folder)): path.read_bytes() for path in found}


def finished(folder: Path) -> Sequence[Path]:
    """Return the files of finished runs."""
    return list((folder / "runs").glob("*.json"))


@pytest.fixture(scope="module")
def one_process(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A whole quick call by one process."""
    folder = tmp_path_factory.mktemp("one")
    done = subprocess.run(command(folder, "--processes", "1"), capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return folder


def test_a_run_that_was_killed_goes_on_where_it_was(tmp_path: Path, one_process: Path) -> None:
    with subprocess.Popen(
        command(tmp_path, "--processes", "2"), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, process_group=0
    ) as cut:
        until(lambda: len(finished(tmp_path)) >= 5, "some runs have finished")
        os.killpg(cut.pid, signal.SIGKILL)
    kept = {path: path.stat().st_mtime_ns for path in finished(tmp_path)}
    assert 5 <= len(kept) < RUNS
    done = subprocess.run(command(tmp_path, "--processes", "2"), capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert f"runs: {RUNS - len(kept)} done, {len(kept)} kept from before, {RUNS} in all" in done.stderr
    assert {path: path.stat().st_mtime_ns for path in kept} == kept
    assert files(tmp_path) == files(one_process)


@pytest.fixture
def dask_address() -> Iterator[str]:
    """The address of a Dask cluster of two worker processes on this machine."""
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address=None, host="127.0.0.1"
    ) as cluster:
        yield cluster.scheduler_address


@pytest.mark.filterwarnings("ignore")
def test_a_dask_cluster_writes_the_same_files(tmp_path: Path, one_process: Path, dask_address: str) -> None:
    done = subprocess.run(command(tmp_path, "--dask", dask_address), capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert files(tmp_path) == files(one_process)


OAR_CLUSTER = """
import sys
sys.path.append(sys.argv[1])
from dask_jobqueue import OARCluster

if __name__ == "__main__":
    with OARCluster(
        cores=1,
        memory="1GB",
        queue="default",
        project="dask",
        walltime="0:10:0",
        interface="lo",
        death_timeout=120,
        memory_per_core_property_name="not_applicable",
        scheduler_options={"dashboard": False},
        worker_extra_args=["--no-dashboard", "--no-nanny"],
    ) as cluster:
        cluster.scale(jobs=2)
        print(cluster.scheduler_address, flush=True)
        sys.stdin.read()
"""


@pytest.fixture
def oar_cluster_address(tmp_path: Path) -> Iterator[tuple[str, Sandbox]]:
    """The address of a Dask cluster whose workers are jobs of oarpy, sent by dask-jobqueue; and that oarpy."""
    tools = list((Path(sys.prefix) / "tools" / "lib").glob("python*/site-packages/dask_jobqueue"))
    if not tools:
        pytest.skip("no dask-jobqueue in the environment of tools: make tools")
    with running_sandbox(tmp_path / "cluster", {}, local_nodes("/host=n[1-2]/cpu={1}/core={2}")) as sandbox:
        environment = {
            **sandbox.environment(),
            "HOME": str(tmp_path),
            "DASK_DISTRIBUTED__SCHEDULER__IDLE_TIMEOUT": "2m",
            "PYTHONPATH": str(ROOT),
        }
        script = tmp_path / "oar_cluster.py"
        script.write_text(OAR_CLUSTER)
        words = [sys.executable, str(script), str(tools[0].parent)]
        pipe = subprocess.PIPE
        with subprocess.Popen(words, env=environment, cwd=tmp_path, text=True, stdin=pipe, stdout=pipe) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            address = process.stdout.readline().strip()
            yield address, sandbox
            process.stdin.close()
            process.wait(60)


@pytest.mark.timeout(600)
def test_workers_that_are_jobs_of_oarpy_write_the_same_files(
    tmp_path: Path, one_process: Path, oar_cluster_address: tuple[str, Sandbox]
) -> None:
    address, sandbox = oar_cluster_address
    folder = tmp_path / "results"
    done = subprocess.run(command(folder, "--dask", address), capture_output=True, text=True, timeout=400)
    assert done.returncode == 0, done.stderr
    assert files(folder) == files(one_process)
    workers = json.loads(sandbox.run("oarstat", "--sql", "project = 'dask'", "-J").stdout)
    assert len(workers) == 2


def test_fresh_forgets_what_was_done(one_process: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in finished(one_process)}
    done = subprocess.run(command(one_process, "--fresh", "--json"), capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert f"runs: {RUNS} done, 0 kept from before" in done.stderr
    assert all(path.stat().st_mtime_ns > at for path, at in before.items())
    claims = json.loads(done.stdout)["claims"]
    assert {claim["claim"]: claim["holds"] for claim in claims if claim["judged"] == "yes"} == {
        "B1": "-",
        "B2": "-",
        "pwa": "-",
        "january": "-",
    }


def test_figures_of_the_paper_on_deadlines_go_on_too(tmp_path: Path) -> None:
    program = [
        os.path.join(os.path.dirname(sys.executable), "oarpy"),
        "reproduce",
        "deadlines",
        "--quick",
        "--figure",
        "1",
    ]
    first = subprocess.run([*program, "--output", str(tmp_path)], capture_output=True, text=True, timeout=120)
    assert (first.returncode, first.stdout.count("ours: not run")) == (0, 8), first.stderr
    before = files(tmp_path)
    again = subprocess.run([*program, "--output", str(tmp_path)], capture_output=True, text=True, timeout=120)
    assert again.stdout == first.stdout
    assert files(tmp_path) == before
    lines = (tmp_path / "figure01.csv").read_text().splitlines()
    assert len(lines) == 5
    cells = dict(zip(lines[0].split(","), lines[1].split(","), strict=True))
    assert (cells["requested_local"], cells["requested_global"], cells["wait"], cells["seeds"]) == (
        "30",
        "10",
        "inf",
        "2",
    )
    assert float(cells["success_low"]) <= float(cells["success"]) <= float(cells["success_high"])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--scenario", "march"], ["march", "jan"]),
        (["--scenario", "pwa-g5k"], ["pwa-g5k", "--traces"]),
        (["--scenario", "pwa-g5k", "--traces", "/nowhere"], ["CTC-SP2", "/nowhere"]),
        (["--processes", "0"], ["processes", "0"]),
    ],
)
def test_what_cannot_be_asked_for_gets_one_line(tmp_path: Path, options: list[str], words: list[str]) -> None:
    done = subprocess.run(command(tmp_path / "x", *options), capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1
    assert [word for word in words if word not in done.stderr] == []


def write_log(folder: Path) -> None:
    """Write a log of the name that reservations are replayed from: jobs in the two parts that quick calls take."""
    lines: list[str] = []
    for part in (1, 25):
        for place in range(150):
            submit = part * 15 * 86400 + place * 9000
            numbers = {0: len(lines) + 1, 1: submit, 3: 3600 + place % 7 * 1800, 4: 16 + place % 5 * 16, 8: 90000}
            lines.append(" ".join(str(numbers.get(field, -1)) for field in range(18)))
    (folder / "SDSC-SP2-1998-4.2-cln.swf").write_text("\n".join(lines) + "\n")


def test_an_experiment_on_reservations_goes_on_where_it_was_killed(tmp_path: Path) -> None:
    write_log(tmp_path)
    program = os.path.join(os.path.dirname(sys.executable), "oarpy")
    words = [program, "reproduce", "flexible", "--quick", "--traces", str(tmp_path), "--processes", "1", "--output"]
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    done = subprocess.run([*words, str(whole)], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("\n") == 8
    with subprocess.Popen([*words, str(cut)], stderr=subprocess.DEVNULL, process_group=0) as killed:
        until(lambda: len(finished(cut)) >= 3, "some runs have finished")
        os.killpg(killed.pid, signal.SIGKILL)
    kept = len(finished(cut))
    done = subprocess.run([*words, str(cut)], capture_output=True, text=True, timeout=120)
    assert f"{kept} kept from before, 44 in all" in done.stderr
    assert files(cut) == files(whole)
    written = tmp_path / "figure4.jsonl"
    subprocess.run([*words, str(cut), "--figure", "4", "--write", str(written)], check=True, timeout=60)
    scenarios = [json.loads(line) for line in written.read_text().splitlines()]
    assert [one["windows"]["fix"] for one in scenarios] == [0, 0, 25, 25, 50, 50, 75, 75]
    assert {one["system"] for one in scenarios} == {"windows"}


def test_an_experiment_on_bags_goes_on_where_it_was_killed(tmp_path: Path) -> None:
    write_logs_of_bags(tmp_path)
    program = os.path.join(os.path.dirname(sys.executable), "oarpy")
    words = [program, "reproduce", "offers", "--quick", "--traces", str(tmp_path), "--processes", "1", "--output"]
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    done = subprocess.run([*words, str(whole)], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("\n") == 7
    with subprocess.Popen([*words, str(cut)], stderr=subprocess.DEVNULL, process_group=0) as killed:
        until(lambda: len(finished(cut)) >= 2, "some runs have finished")
        os.killpg(killed.pid, signal.SIGKILL)
    kept = len(finished(cut))
    done = subprocess.run([*words, str(cut)], capture_output=True, text=True, timeout=120)
    assert f"{kept} kept from before, 8 in all" in done.stderr
    assert files(cut) == files(whole)
    written = tmp_path / "scenarios.jsonl"
    subprocess.run([*words, str(cut), "--write", str(written)], check=True, timeout=60)
    scenarios = [json.loads(line) for line in written.read_text().splitlines()]
    assert [one["offers"]["policy"] for one in scenarios] == ["slots", "plb", "dplb", "dplbv2"] * 2
    assert {one["system"] for one in scenarios} == {"offers"}
    again = subprocess.run([*words, str(cut), "--figure", "9"], capture_output=True, text=True, timeout=60)
    assert (again.returncode, "there is no figure 9 (--figure N, from 1 to 5)" in again.stderr) == (2, True)
    for path in cut.glob("figure*"):
        path.unlink()
    subprocess.run([*words, str(cut), "--figure", "4"], check=True, stdout=subprocess.DEVNULL, timeout=120)
    assert [path.name for path in cut.glob("figure*.csv")] == ["figure04.csv"]
