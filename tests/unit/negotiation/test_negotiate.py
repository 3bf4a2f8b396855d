"""``oarpy negotiate``: applications in virtual time, on files."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path
from typing import Any

from oarpy.negotiation.simulation.journal import Journal
from oarpy.negotiation.simulation.reader import read_workload
from oarpy.negotiation.simulation.run import NegotiationRun

GUIDE = Path(__file__).resolve().parents[3] / "docs" / "guides" / "negotiation.md"
EXAMPLE = """
{"fair_start": 3, "timer": 0.5,
 "clusters": {"red": {"hosts": 6}, "blue": {"hosts": 3, "speed": 2}},
 "applications": [
  {"id": 1, "arrives": 0, "script": [[0, {"red": 6}, 60]], "lasts": 20},
  {"id": 2, "arrives": 1, "script": [[0, {"blue": 3}, 50]]},
  {"id": 3, "arrives": 2, "delay": 1, "moldable": {"P": 1, "min": 2, "max": 6, "single": 36, "margin": 1.5}},
  {"id": 4, "arrives": 4, "clusters": ["red"], "script": [[0, {"red": 2}, 12], [25, {"red": 1}, 5]]}]}
"""
FROM_TWO_ON = """\
{"t": 2, "app": 3, "message": "subscribe"}
{"t": 2, "app": 3, "state": "Submitted"}
{"t": 2, "app": 3, "message": "changeNotify", "serial": 1, "changes": {"red": [2, 58, 6], "blue": [2, 49, 3]}}
{"t": 3, "app": 3, "message": "request", "tag": 1, "hosts": {"blue": 3}, "walltime": 9, "serial": 1}
{"t": 3, "app": 3, "state": "RequestSent"}
{"t": 3, "app": 3, "state": "Waiting"}
{"t": 3, "app": 3, "message": "estimate", "tag": 1, "start": 51}
{"t": 4, "app": 4, "message": "subscribe"}
{"t": 4, "app": 4, "state": "Submitted"}
{"t": 4, "app": 4, "message": "changeNotify", "serial": 1, "changes": {"red": [4, 56, 6]}}
{"t": 4, "app": 4, "message": "request", "tag": 1, "hosts": {"red": 2}, "walltime": 12}
{"t": 4, "app": 4, "state": "RequestSent"}
{"t": 4, "app": 4, "state": "Waiting"}
{"t": 4, "app": 4, "message": "estimate", "tag": 1, "start": 60}
{"t": 20, "app": 1, "message": "done"}
{"t": 20, "app": 1, "state": "FinishSent"}
{"t": 20, "app": 1, "message": "ended", "reason": "done"}
{"t": 20, "app": 1, "state": "Ghost"}
{"t": 20, "app": 3, "message": "changeNotify", "serial": 2, "changes": {"red": [20, 3, 6]}}
{"t": 20, "app": 4, "message": "changeNotify", "serial": 2, "changes": {"red": [20, 3, 6]}}
{"t": 20, "app": 4, "message": "estimate", "tag": 1, "start": 23}
{"t": 21, "app": 3, "message": "request", "tag": 2, "hosts": {"red": 6}, "walltime": 9, "serial": 2}
{"t": 21, "app": 3, "state": "RequestSent"}
{"t": 21, "app": 1, "state": "Finished"}
{"t": 21, "app": 3, "state": "Waiting"}
{"t": 21, "app": 3, "state": "Started"}
{"t": 21, "app": 3, "message": "startNotify", "tag": 2, "hosts": {"red": 6}}
{"t": 21, "app": 4, "message": "changeNotify", "serial": 3, "changes": {"red": [21, 9, 6]}}
{"t": 21, "app": 4, "message": "estimate", "tag": 1, "start": 30}
{"t": 27, "app": 3, "message": "done"}
{"t": 27, "app": 3, "state": "FinishSent"}
{"t": 27, "app": 3, "message": "ended", "reason": "done"}
{"t": 27, "app": 3, "state": "Ghost"}
{"t": 27, "app": 3, "state": "Finished"}
{"t": 27, "app": 4, "state": "Started"}
{"t": 27, "app": 4, "message": "startNotify", "tag": 1, "hosts": {"red": 2}}
{"t": 29, "app": 4, "message": "refused", "of": "request", "code": 1}
"""
"""What the example prints from t = 2 on, up to the refusal."""


def lines(text: str) -> list[str]:
    """Run a file and return what it prints."""
    out = io.StringIO()
    workload = read_workload(text)
    journal = Journal(out, workload.ticks)
    journal.total(NegotiationRun(workload, journal.note).run())
    return out.getvalue().splitlines()


def happened(**file: Any) -> list[dict[str, Any]]:
    """Run a file and return the lines as objects."""
    return [json.loads(line) for line in lines(json.dumps(file))]


def of(lines: list[dict[str, Any]], application: int, word: str) -> list[dict[str, Any]]:
    """Return the lines of an application with this message or state."""
    return [
        line for line in lines if line.get("app") == application and word in (line.get("message"), line.get("state"))
    ]


def test_the_guide_shows_what_its_example_prints_under_either_rule_for_ghosts() -> None:
    fences = re.findall(r"^```(?:json)?\n(.*?)^```$", GUIDE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    file, needed, always = fences
    for ghosts, shown in (("needed", needed), ("always", always)):
        printed = lines(json.dumps({**json.loads(file), "ghosts": ghosts}))
        first = printed.index(shown.splitlines()[0])
        assert printed[first : first + shown.count("\n")] == shown.splitlines()


def test_the_example_prints_exactly_its_lines() -> None:
    printed = lines(EXAMPLE)
    first = next(at for at, line in enumerate(printed) if line.startswith('{"t": 2,'))
    expected = FROM_TWO_ON.splitlines()
    assert printed[first : first + len(expected)] == expected
    totals = json.loads(printed[-1])["totals"]
    assert {key: totals[key] for key in ("bytes", "waste", "passes", "unique_configurations")} == {
        "bytes": 111,
        "waste": 6,
        "passes": 9,
        "unique_configurations": 2,
    }
    assert totals["configurations"] == {"1": 0, "2": 0, "3": 2, "4": 0}
    assert totals["operations"] == totals["rms_operations"] + totals["application_operations"] > 0


def test_a_moldable_application_chooses_as_in_figure_3_of_its_source() -> None:
    """Of 5 hosts 4, 1 and 5 are free from 0, 1 and 2 on: 5 hosts from 2 to 3 are better than one from 0 to 5."""
    events = happened(
        clusters={"c": {"hosts": 5}, "lock": {"hosts": 1}},
        fair_start=0,
        applications=[
            {"id": 1, "arrives": 0, "script": [[0, {"c": 1, "lock": 1}, 1]]},
            {"id": 2, "arrives": 0, "script": [[0, {"c": 4, "lock": 1}, 1]]},
            {"id": 3, "arrives": 0, "clusters": ["c"], "moldable": {"P": 1, "min": 1, "max": 5, "single": 5}},
        ],
    )
    view = of(events, 3, "changeNotify")[-1]
    assert view["changes"] == {"c": [0, 1, 1, 1, 4]}
    assert of(events, 3, "request")[-1]["hosts"] == {"c": 5}
    assert [line["t"] for line in (*of(events, 3, "Started"), *of(events, 3, "done"))] == [2, 3]


def test_the_command_prints_lines_of_json(tmp_path: Path, capsys: Any) -> None:
    from oarpy.commands.oarpy import app

    from oarpy.client.boundary import execute

    file = tmp_path / "example.json"
    file.write_text(EXAMPLE, encoding="utf-8")
    assert execute(app, "oarpy", ["negotiate", str(file)]) == 0
    assert capsys.readouterr().out.splitlines()[:-1] == lines(EXAMPLE)[:-1]
