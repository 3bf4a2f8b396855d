"""``oarpy config``, ``plan``, ``simulate``, ``generate``, ``version``: no database needed, and none loaded."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest
from oarpy.commands.oarpy import app

from oarpy.client.boundary import execute
from oarpy.client.health.configuration_report import mask_password
from research import benchmarks

SCENARIO = {
    "resources": [{"id": 1, "network_address": "n1", "core": 1}],
    "hierarchy": ["network_address", "core"],
    "jobs": [{"id": 2, "user": "bob", "requests": [{"resources": "/core=1", "walltime": 60}]}],
}
SWF = "1 0 -1 10 2 -1 -1 2 20 -1 1 1 1 1 1 1 -1 -1\n2 1 -1 10 2 -1 -1 2 20 -1 1 1 1 1 1 1 -1 -1\n"


@pytest.fixture
def scenario(tmp_path: Path) -> Path:
    path = tmp_path / "scenario.json"
    path.write_text(json.dumps(SCENARIO), encoding="utf-8")
    return path


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert execute(app, "oarpy", ["version"]) == 0
    assert capsys.readouterr().out == f"oarpy {version('oarpy-scheduler')}\n"
    assert execute(app, "oarpy", ["version", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"version": version("oarpy-scheduler")}


def test_plan_prints_one_object_a_file(scenario: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert execute(app, "oarpy", ["plan", str(scenario), str(scenario), "--timing"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2
    for line in lines:
        answer = json.loads(line)
        assert answer["timing"].keys() == {"read", "plan", "write"}
        (job,) = answer["jobs"]
        assert (job["id"], job["start"], job["end"], job["resources"]) == (2, 0, 60, [1])


def test_plan_goes_on_after_a_file_that_is_no_scenario(
    scenario: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert execute(app, "oarpy", ["plan", str(tmp_path / "missing.json"), str(scenario)]) == 2
    out, err = capsys.readouterr()
    assert len(out.splitlines()) == 1
    assert len(err.splitlines()) == 1


def test_simulate(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace, table = tmp_path / "two.swf", tmp_path / "jobs.csv"
    trace.write_text(SWF, encoding="ascii")
    arguments = ["simulate", "--trace", str(trace), "--procs", "2", "--policy", "fcfs", "--json"]
    assert execute(app, "oarpy", [*arguments, "--output", str(table)]) == 0
    (answer,) = json.loads(capsys.readouterr().out)["policies"]
    assert (answer["policy"], answer["jobs"], answer["max_wait"], answer["makespan"]) == ("fcfs", 2, 9, 20)
    assert table.read_text(encoding="utf-8").splitlines()[0] == "job,submit,start,end,procs,wait,bounded_slowdown"


def test_generated_workload_can_be_simulated(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace = tmp_path / "made.swf"
    assert execute(app, "oarpy", ["generate", "esp2-light", "--procs", "34", "--output", str(trace)]) == 0
    arguments = ["simulate", "--trace", str(trace), "--procs", "34", "--policy", "fcfs,easy", "--jobs", "20", "-J"]
    assert execute(app, "oarpy", arguments) == 0
    assert [one["jobs"] for one in json.loads(capsys.readouterr().out)["policies"]] == [20, 20]


@pytest.mark.parametrize(
    "arguments",
    [
        ["plan"],
        ["simulate", "--procs", "2", "--policy", "fcfs"],
        ["simulate", "--trace", "x", "--procs", "two", "--policy", "fcfs"],
        ["simulate", "--trace", "x", "--procs", "2", "--policy", "magic"],
        ["simulate", "--trace", "x", "--procs", "2", "--policy", ","],
        ["simulate", "--trace", "x", "--procs", "2", "--policy", "fcfs", "--jobs", "0"],
        ["generate", "nonsense", "--procs", "2"],
        ["nonsense"],
        ["db", "nonsense"],
    ],
)
def test_wrong_usage_is_one_line(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert execute(app, "oarpy", arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert len(err.splitlines()) == 1
    assert err.startswith("oarpy: ")


def test_unknown_module_is_not_found(capsys: pytest.CaptureFixture[str]) -> None:
    assert execute(app, "oarpy", ["run", "nonsense", "--once"]) == 4
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_config_show_tells_origins_and_hides_passwords(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "config.toml"
    file.write_text(
        '[database]\nurl = "postgresql://ann:se:cret@db/oarpy"\n[scheduler]\nsecurity_time = 7\n'
        '[site]\nteams = ["red", 7]\nsince = 2026-01-01\nledger = "host=l password=secret"\n'
    )
    monkeypatch.setenv("OARPY_CONFIG", str(file))
    monkeypatch.setenv("OARPY_LOG_LEVEL", "debug")
    assert execute(app, "oarpy", ["config", "show"]) == 0
    lines = capsys.readouterr().out.splitlines()
    cells = [line.split() for line in lines]
    assert ["database.url", "postgresql://ann:***@db/oarpy", str(file)] in cells
    assert ["scheduler.security_time", "7", str(file)] in cells
    assert ["log.level", "debug", "OARPY_LOG_LEVEL"] in cells
    assert ["site.teams", "red,7", str(file)] in cells
    assert ["site.ledger", "host=l", "password=***", str(file)] in cells
    assert ["log.format", "text", "default"] in cells
    assert execute(app, "oarpy", ["config", "check"]) == 0
    told, restart = capsys.readouterr().out.splitlines()
    assert told == f"the configuration is right ({file}; 6 settings differ from their defaults)"
    assert restart.endswith("after a change, start oarpy server and oarpy web again")
    assert execute(app, "oarpy", ["config", "show", "--json"]) == 0
    out = capsys.readouterr().out
    assert "cret" not in out
    answer = json.loads(out)
    assert answer["log.level"] == {"value": "debug", "origin": "OARPY_LOG_LEVEL"}
    assert answer["submission.refused_users"] == {"value": ["root", "oar"], "origin": "default"}
    assert answer["site.since"] == {"value": "2026-01-01", "origin": str(file)}
    assert len(answer) == len(lines) - 2, "less the titles"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("postgresql://ann:secret@db/oarpy", "postgresql://ann:***@db/oarpy"),
        ("postgresql://ann:p%40ss@db:5432/oarpy?sslmode=require", "postgresql://ann:***@db:5432/oarpy?sslmode=require"),
        ("postgresql://db/oarpy?user=ann&password=secret&x=1", "postgresql://db/oarpy?user=ann&password=***&x=1"),
        ("host=db password=secret user=ann", "host=db password=*** user=ann"),
        ("host=db password = 'se cr\\'et' user=ann", "host=db password = *** user=ann"),
        ("host=db sslpassword=secret", "host=db sslpassword=***"),
        ("postgresql:///oarpy?host=%2Frun%2Foarpy&user=oarpy", "postgresql:///oarpy?host=%2Frun%2Foarpy&user=oarpy"),
        ("~/.oarpy/postgresql", "~/.oarpy/postgresql"),
    ],
)
def test_passwords_are_masked(text: str, shown: str) -> None:
    assert mask_password(text) == shown


@pytest.mark.parametrize("arguments", [["version"], ["config", "show"], ["plan", "{scenario}"]])
def test_what_needs_no_database_loads_none(arguments: list[str], scenario: Path) -> None:
    code = (
        "import sys; from oarpy.client.boundary import execute; from oarpy.commands.oarpy import app;"
        "status = execute(app, 'oarpy', sys.argv[1:]); sys.stderr.write(' '.join(sys.modules)); sys.exit(status)"
    )
    words = [argument.format(scenario=scenario) for argument in arguments]
    done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    loaded = set(done.stderr.split())
    assert not loaded & {"psycopg", "sqlalchemy", "alembic", "paramiko", "structlog", "jinja2"}


def test_bench_lists_what_there_is_to_measure(capsys: pytest.CaptureFixture[str]) -> None:
    measurements = {
        path.stem for path in Path(benchmarks.__path__[0]).glob("*.py") if "\ndef main(" in path.read_text()
    }
    assert set(benchmarks.MEASUREMENTS) == measurements
    for words in (["bench"], ["bench", "--help"], ["bench", "-h"]):
        assert execute(app, "oarpy", words) == 0
        listed = [line.split()[0] for line in capsys.readouterr().out.splitlines() if line.startswith("  ")]
        assert listed == list(benchmarks.MEASUREMENTS)
    assert execute(app, "oarpy", ["bench", "nothing"]) == 4
    assert "no measurement 'nothing' (main_job" in capsys.readouterr().err
