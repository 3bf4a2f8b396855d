"""Plug-ins: one of each kind from the guide, by decide and grid simulate; what happens to those that fail."""

from __future__ import annotations

import io
import json
import sys
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from oarpy.configuration import load
from oarpy.grid.simulation.command import object_of, run_grid
from oarpy.grid.simulation.scenario_source import ScenarioSource
from oarpy.model import plugins
from oarpy.model.errors import UsageError
from oarpy.model.request import Group, Level
from oarpy.questions.command import run_decide
from oarpy.scheduler.decide import decide
from oarpy.scheduler.resources.platform import Platform, Resource
from oarpy.scheduler.rules.reservations import promised
from oarpy.scheduler.snapshot import Alternative, Reservation, Snapshot, WaitingJob
from oarpy.scheduler.windows.reservation_windows import ReservationWindow, Windows

GUIDE = Path(__file__).parents[3] / "docs" / "guides" / "plugins.md"
GROUPS = {
    plugins.RESERVATION_ORDERS: "narrow_first",
    plugins.COALLOCATIONS: "one_cluster",
    plugins.COMPOSITIONS: "fastest",
    plugins.PREDICTORS: "slowest_so_far",
    plugins.MAPPINGS: "in_turn",
}
Install = Callable[..., None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Install a package with functions of the given names, one for each group."""

    def one(text: str, names: dict[str, str], module: str = "site_plugins") -> None:
        folder = tmp_path / module
        information = folder / f"{module}-1.0.dist-info"
        information.mkdir(parents=True)
        (folder / f"{module}.py").write_text(text, encoding="utf-8")
        (information / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n", "utf-8")
        points = "".join(f"[{group}]\n{name} = {module}:{name}\n" for group, name in names.items())
        (information / "entry_points.txt").write_text(points, encoding="utf-8")
        monkeypatch.syspath_prepend(str(folder))
        monkeypatch.delitem(sys.modules, module, raising=False)
        plugins._points.cache_clear()

    yield one
    plugins._points.cache_clear()


@pytest.fixture
def guide(install: Install) -> None:
    """Install the plug-ins of the guide."""
    text = GUIDE.read_text()
    code = "".join(block.partition("```")[0] for block in text.split("```python\n")[1:])
    install(code, GROUPS)


def decided(folder: Path, document: dict[str, Any]) -> tuple[int, Any, str]:
    file = folder / "question.json"
    file.write_text(json.dumps(document))
    out, err = io.StringIO(), io.StringIO()
    status = run_decide([str(file)], out, err)
    return status, json.loads(out.getvalue() or "null"), err.getvalue()


WINDOWS: dict[str, Any] = {
    "system": "windows",
    "clusters": [{"name": "A", "procs": 4}],
    "jobs": [
        {"id": "first", "procs": 4, "run": 10, "deadline": 100},
        {"id": "wide", "procs": 4, "run": 10, "submit": 1, "deadline": 50},
        {"id": "narrow", "procs": 1, "run": 10, "submit": 2, "deadline": 60},
    ],
}
ADMIT: dict[str, Any] = {
    "ask": "admit",
    "procs": 4,
    "running": [{"id": 9, "procs": 4, "start": -5, "time": 15}],
    "waiting": [{"id": 1, "procs": 4, "time": 10, "submitted": -2, "deadline": 100, "start": 10}],
    "new": {"id": 2, "procs": 1, "time": 10, "submitted": 0, "deadline": 200},
}
COALLOCATE: dict[str, Any] = {
    "ask": "coallocate",
    "providers": [{"name": "A", "procs": 2, "holds": [[0, 10, 1]]}, {"name": "B", "procs": 1}],
    "job": {"procs": 2, "time": 5},
}
COMPOSE: dict[str, Any] = {
    "ask": "compose",
    "policy": "fastest",
    "tasks": 6,
    "offers": [{"provider": "A", "tasks": 4, "end": 10}, {"provider": "B", "tasks": 6, "end": 20}],
}
MAP: dict[str, Any] = {
    "ask": "map",
    "model": "in_turn",
    "iterations": 10,
    "processes": 4,
    "resources": {"fast": 1, "slow": 1},
    "throughput": {"fast": {"a": 2}, "slow": {"a": 1}},
}
PREDICT: dict[str, Any] = {
    "ask": "predict",
    "predictor": "slowest_so_far",
    "job": {"user": "ann", "name": "x", "walltime": 100},
    "history": [
        {"user": "ann", "name": "x", "walltime": 100, "run": run, "end": end} for run, end in ((30, -20), (40, -10))
    ],
}


def test_the_guide_announces_its_functions_by_a_whole_project() -> None:
    block = next(block for block in GUIDE.read_text().split("```text\n")[1:] if block.startswith("[project]"))
    project = tomllib.loads(block.partition("```")[0])["project"]
    assert {"name", "version"} <= project.keys()
    assert project["entry-points"] == {group: {name: f"site_plugins:{name}"} for group, name in GROUPS.items()}


@pytest.mark.usefixtures("guide")
def test_those_of_the_guide_decide_on_files(tmp_path: Path) -> None:
    assert decided(tmp_path, ADMIT)[1]["schedule"] == {"1": 10, "2": 20}
    assert decided(tmp_path, {**ADMIT, "criterion": "narrow_first"})[1]["schedule"] == {"1": 20, "2": 10}
    assert decided(tmp_path, COALLOCATE)[1] == {"start": 0, "end": 5, "parts": {"A": 1, "B": 1}}
    assert decided(tmp_path, {**COALLOCATE, "coallocation": "one_cluster"})[1]["parts"] == {"A": 2}
    assert decided(tmp_path, COMPOSE)[1]["parts"] == [
        {"provider": "A", "tasks": 4, "end": 10},
        {"provider": "B", "tasks": 2, "end": 20},
    ]
    assert decided(tmp_path, MAP)[1] == {
        "stages": None,
        "seconds": 20,
        "assigned": {"fast": {"a": 2}, "slow": {"a": 2}},
    }
    assert decided(tmp_path, PREDICT)[1] == {"seconds": 40}


@pytest.mark.usefixtures("guide")
def test_those_of_the_guide_are_simulated_and_chosen_in_the_page() -> None:
    def starts(document: dict[str, Any]) -> dict[Any, Any]:
        return {job["id"]: job["start"] for job in object_of(json.dumps(document))["jobs"]}

    assert starts(WINDOWS) == {"first": 0, "wide": 10, "narrow": 20}
    assert starts({**WINDOWS, "windows": {"order": "narrow_first"}}) == {"first": 0, "narrow": 10, "wide": 20}
    source = ScenarioSource("windows", json.dumps(WINDOWS))
    assert "narrow_first" in source.choices()[0].values
    run = source.start({"windows.order": "narrow_first"})
    assert len(list(run.events())) == 9
    flexco = {
        "system": "flexco",
        "clusters": [{"name": "A", "procs": 2}, {"name": "B", "procs": 1}],
        "jobs": [{"id": 1, "procs": 1, "run": 10, "cluster": "A"}, {"id": 2, "procs": 2, "run": 5}],
    }
    assert starts(flexco) == {1: 0, 2: 0}
    assert starts({**flexco, "flexco": {"coallocation": "one_cluster"}}) == {1: 0, 2: 10}
    for system in ("bags", "offers"):
        bag = {"id": 1, "tasks": 4, "run": 10} | ({"deadline": 100} if system == "offers" else {})
        clusters = [{"name": "A", "procs": 2}, {"name": "B", "procs": 2}]
        found = object_of(
            json.dumps({"system": system, "clusters": clusters, "jobs": [bag], system: {"policy": "fastest"}})
        )
        assert sum(found["jobs"][0]["parts"].values()) == 4


def test_one_that_fails_is_told_with_its_line_and_others_go_on(tmp_path: Path, install: Install) -> None:
    text = "def narrow_first(job, now):\n    return 1 / 0\n"
    text += "def fastest(*_):\n    return {'A': 1}\ndef in_turn(*_):\n    return 7\n"
    install(text, {group: name for group, name in GROUPS.items() if name in ("narrow_first", "fastest", "in_turn")})
    broken, good = tmp_path / "broken.json", tmp_path / "good.json"
    broken.write_text(json.dumps({**WINDOWS, "windows": {"order": "narrow_first"}}))
    good.write_text(json.dumps(WINDOWS))
    out, err = io.StringIO(), io.StringIO()
    assert run_grid([str(broken), str(good)], out, err) == 2
    assert (out.getvalue().count("\n"), err.getvalue().count("\n")) == (1, 1)
    assert "'narrow_first' raised ZeroDivisionError" in err.getvalue()
    assert "site_plugins.py, line 2" in err.getvalue()
    for document, what in ((COMPOSE, "gives 1 of 6 tasks"), (MAP, "gives no map")):
        status, _, line = decided(tmp_path, document)
        assert (status, what in line, line.count("\n")) == (2, True, 1)


@pytest.mark.parametrize("name", ["not.installed", "absent", "", "os.system", "../x", "narrow first"])
def test_a_name_that_is_none_is_refused(tmp_path: Path, name: str) -> None:
    questions = (
        {**ADMIT, "criterion": name},
        {**COALLOCATE, "coallocation": name},
        {**COMPOSE, "policy": name},
        {**MAP, "model": name},
        {**PREDICT, "predictor": name},
    )
    for document in questions:
        status, found, line = decided(tmp_path, document)
        assert (status, found, line.count("\n")) == (2, None, 1)
    with pytest.raises(UsageError, match="order"):
        object_of(json.dumps({**WINDOWS, "windows": {"order": name}}))


def test_a_cluster_uses_only_those_that_it_names(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text('[scheduler]\nreservation_order = "narrow_first"\n')
    with pytest.raises(UsageError, match=r"scheduler\.reservation_order: 'narrow_first' is not one of"):
        load({"OARPY_CONFIG": str(file)})
    file.write_text('[scheduler]\nreservation_order = "narrow_first"\nplugins = ["narrow_first"]\n')
    assert load({"OARPY_CONFIG": str(file)}).scheduler.reservation_order == "narrow_first"
    file.write_text('[scheduler]\nprediction = "slowest_so_far"\n')
    with pytest.raises(UsageError, match=r"scheduler\.prediction: 'slowest_so_far' is not one of walltime, last2"):
        load({"OARPY_CONFIG": str(file)})


PLATFORM = Platform.build([Resource(place, properties={"network_address": "n1"}) for place in (1, 2)], ())


def with_windows(order: str) -> Snapshot:
    """Return a moment with an accepted reservation of one resource and a new one of two."""
    old, new = (
        WaitingJob(
            count, "ann", reservation=100, alternatives=(Alternative((Group((Level("resource_id", count),)),), 10),)
        )
        for count in (1, 2)
    )
    reservation = Reservation(old, 100, 10, (1,))
    held = promised(reservation, 0)
    assert held is not None
    windows = {job.id: ReservationWindow(deadline=200, ready=50) for job in (old, new)}
    return Snapshot(
        0,
        PLATFORM,
        waiting=(new,),
        holding=(held,),
        reservations=(reservation,),
        windows=Windows(windows, order=order, notice=0),
    )


@pytest.mark.parametrize(
    ("line", "error"),
    [("raise KeyError('x')", "KeyError"), ("pass", "TypeError"), ("raise SystemExit(7)", "SystemExit")],
)
def test_a_pass_uses_our_own_order_where_a_plug_in_fails(install: Install, line: str, error: str) -> None:
    install(f"def narrow_first(job, now):\n    {line}\n", {plugins.RESERVATION_ORDERS: "narrow_first"})
    made, expected = decide(with_windows("narrow_first")), decide(with_windows("edf"))
    assert (made.plan, made.windows.dated) == (expected.plan, expected.windows.dated)
    assert made.windows.dated == {2: 0}
    assert (expected.windows.fault, error in made.windows.fault) == ("", True)


def test_an_order_of_a_pass_reads_how_large_jobs_are(install: Install) -> None:
    text = "sizes = {}\ndef narrow_first(job, now):\n    sizes[job.id] = job.procs\n    return 0\n"
    install(text, {plugins.RESERVATION_ORDERS: "narrow_first"})
    decide(with_windows("narrow_first"))
    assert sys.modules["site_plugins"].sizes == {1: 1, 2: 2}


PLACE = "from oarpy.grid.core.coallocation.common_start import CommonPlace\n"
MAPPED = "from oarpy.processes.mapping import ProcessMap\n"


@pytest.mark.parametrize(
    ("kind", "gives"),
    [
        *(
            ("one_cluster", gives)
            for gives in (
                "CommonPlace(-10, -5, {'A': 2})",
                "CommonPlace(0, 5, {'A': 1, 'B': 1, 'C': 0})",
                "CommonPlace(0, 5, {'A': 2, 'B': 1, 'C': -1})",
                "CommonPlace(0, 5, {'B': 1.0, 'A': 1})",
                "CommonPlace(10, 12, {'A': 2})",
                "CommonPlace(20, 25, {'A': 2})",
                "CommonPlace(float('nan'), 25, {'A': 2})",
                "CommonPlace('0', 5, {'A': 2})",
                "CommonPlace(10, 15, None)",
                "(0, 5, {'A': 2})",
                "{}",
            )
        ),
        *(("fastest", gives) for gives in ("None", "{'A': '6'}", "{'B': 6.0}", "{('A',): None}")),
        *(("slowest_so_far", gives) for gives in ("None", "'x'", "-1", "float('nan')", "()")),
        *(
            ("in_turn", gives)
            for gives in (
                "None",
                "ProcessMap(None, None, {})",
                "ProcessMap(None, 5, None)",
                "ProcessMap(None, 5, {'fast': {'a': 3}})",
                "ProcessMap(None, 5, {'fast': {'z': 4}})",
                "ProcessMap(None, 5, {'none': {'a': 4}})",
                "ProcessMap(None, 5, {'fast': {'a': 5}, 'slow': {'a': -1}})",
            )
        ),
    ],
)
def test_what_cannot_be_is_refused_in_a_line(tmp_path: Path, install: Install, kind: str, gives: str) -> None:
    install(f"{PLACE}{MAPPED}def {kind}(*_):\n    return {gives}\n", {_group(kind): kind})
    providers = [{"name": "A", "procs": 2, "holds": [[0, 10, 1]]}, {"name": "B", "procs": 1}, {"name": "C", "procs": 1}]
    document = {
        "one_cluster": {
            **COALLOCATE,
            "providers": providers,
            "job": {"procs": 2, "time": 5, "end_by": 20},
            "coallocation": kind,
        },
        "fastest": COMPOSE,
        "slowest_so_far": PREDICT,
        "in_turn": MAP,
    }[kind]
    status, found, line = decided(tmp_path, document)
    assert (status, found, line.count("\n"), f"plug-in '{kind}'" in line) == (2, None, 1, True)


def _group(kind: str) -> str:
    return next(group for group, name in GROUPS.items() if name == kind)


@pytest.mark.parametrize("gives", ["CommonPlace(-10, 0, {'A': 1})", "CommonPlace(now, now, {'A': 1})", "(1, 2)"])
def test_no_place_of_a_plug_in_turns_back_the_time(tmp_path: Path, install: Install, gives: str) -> None:
    text = f"{PLACE}def one_cluster(clusters, request, instants):\n    now = next(instants)\n    return {gives}\n"
    install(text, {plugins.COALLOCATIONS: "one_cluster"})
    document = {"system": "flexco", "clusters": [{"name": "A", "procs": 2}], "flexco": {"coallocation": "one_cluster"}}
    broken, good = tmp_path / "broken.json", tmp_path / "good.json"
    broken.write_text(json.dumps({**document, "jobs": [{"id": 1, "procs": 1, "run": 10, "submit": 5}]}))
    good.write_text(json.dumps(WINDOWS))
    out, err = io.StringIO(), io.StringIO()
    assert run_grid([str(broken), str(good)], out, err) == 2
    assert (out.getvalue().count("\n"), err.getvalue().count("\n")) == (1, 1)
    assert "plug-in 'one_cluster' gives" in err.getvalue()


def test_keys_that_cannot_be_compared_are_told_in_a_line(tmp_path: Path, install: Install) -> None:
    install("def narrow_first(job, now):\n    pass\n", {plugins.RESERVATION_ORDERS: "narrow_first"})
    status, found, line = decided(tmp_path, {**ADMIT, "criterion": "narrow_first"})
    assert (status, found, line.count("\n")) == (2, None, 1)
    assert "'narrow_first' gives what cannot be used: TypeError" in line


@pytest.mark.parametrize("predictor", ["last2", "similar"])
def test_runs_of_no_time_predict_none(tmp_path: Path, predictor: str) -> None:
    history = [{"user": "ann", "name": "x", "walltime": 100, "run": 0, "end": -end} for end in (30, 20, 10)]
    assert decided(tmp_path, {**PREDICT, "predictor": predictor, "history": history}) == (0, {"seconds": 0}, "")
