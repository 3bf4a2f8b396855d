"""``oarpy plan``: scenario files in, one JSON line per file out, one line on stderr for what is not a scenario."""

from __future__ import annotations

import io
import json
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct

from oarpy.model.dates import JobDates
from oarpy.scheduler.decide import decide
from oarpy.scheduler.order.usage_shares import FactorRules, KarmaRules, Priorities, Usage
from oarpy.scheduler.snapshot import (
    HoldingJob,
    PassShare,
    PowerRules,
    Queue,
    QuotaRule,
    Reservation,
    Rules,
    Snapshot,
    WaitingJob,
    WalltimeRequest,
)
from oarpy.simulation.scenarios import fields as entries
from oarpy.simulation.scenarios.reader import read_scenario
from oarpy.simulation.scenarios.scenario import run_plan

EXAMPLE = """
{"now": 0, "resources": [{"id": 1, "network_address": "n1", "core": 1}, {"id": 2, "network_address": "n1", "core": 2},
                         {"id": 3, "network_address": "n2", "core": 3}, {"id": 4, "network_address": "n2", "core": 4}],
 "hierarchy": ["network_address", "core"],
 "running": [{"id": 1, "user": "ann", "queue": "default", "types": [], "start": -10, "walltime": 40,
              "resources": [1, 2]}],
 "jobs": [{"id": 2, "user": "bob", "requests": [{"resources": "/network_address=2", "walltime": 60},
                                                {"resources": "/network_address=1", "walltime": 100}]},
          {"id": 3, "user": "eve", "requests": [{"resources": "/core=1", "walltime": 30}]}]}
"""


def _run(
    folder: Path, *texts: str | bytes, timing: bool = False, decisions: bool = False
) -> tuple[int, list[dict[str, Any]], list[str]]:
    paths = []
    for rank, text in enumerate(texts):
        path = folder / f"{rank}.json"
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        paths.append(str(path))
    out, err = io.StringIO(), io.StringIO()
    status = run_plan(paths, timing, out, err, decisions=decisions)
    return status, [json.loads(line) for line in out.getvalue().splitlines()], err.getvalue().splitlines()


def _scenario(**changes: Any) -> str:
    rows = [{"id": 1, "network_address": "n1"}, {"id": 2, "network_address": "n1"}, {"id": 9, "type": "licence"}]
    one = {"id": 1, "user": "ann", "requests": [{"resources": "/resource_id=1", "walltime": 10}]}
    return json.dumps({"resources": rows, "jobs": [one], **changes})


def _job(**changes: Any) -> dict[str, Any]:
    return {"id": 1, "user": "ann", "requests": [{"resources": "/resource_id=1", "walltime": 10}], **changes}


def _running(**changes: Any) -> dict[str, Any]:
    return {"id": 5, "user": "ann", "start": 0, "walltime": 10, "resources": [1], **changes}


def _reserved(**changes: Any) -> dict[str, Any]:
    return {"job": _job(id=6), "start": 50, "walltime": 10, "resources": [1], **changes}


def _planned(folder: Path, **changes: Any) -> dict[str, Any]:
    status, (line,), errors = _run(folder, _scenario(**changes))
    assert (status, errors) == (0, [])
    return line


def test_the_example(tmp_path: Path) -> None:
    status, (line,), errors = _run(tmp_path, EXAMPLE)
    assert (status, errors) == (0, [])
    assert list(line) == ["seconds", "slots", "kill", "jobs"]
    assert line["kill"] == []
    assert isinstance(line["slots"], int)
    assert line["seconds"] >= 0
    assert [{key: value for key, value in job.items() if key != "reason"} for job in line["jobs"]] == [
        {
            "id": 2,
            "alternative": 0,
            "start": 30,
            "end": 90,
            "resources": [1, 2, 3, 4],
            "verdict": "resources_busy",
        },
        {"id": 3, "alternative": 0, "start": 0, "end": 30, "resources": [3], "verdict": "starts"},
    ]


def test_timing_is_told_when_asked_for(tmp_path: Path) -> None:
    _, (line,), _ = _run(tmp_path, EXAMPLE, timing=True)
    assert set(line["timing"]) == {"read", "plan", "write"}
    assert line["timing"]["plan"] == line["seconds"]


def test_other_files_are_planned_beside_one_that_is_not_a_scenario(tmp_path: Path) -> None:
    status, lines, errors = _run(tmp_path, EXAMPLE, "{}", EXAMPLE)
    assert (status, len(lines), len(errors)) == (2, 2, 1)
    assert "1.json" in errors[0]


def test_a_file_that_cannot_be_read_is_one_line(tmp_path: Path) -> None:
    out, err = io.StringIO(), io.StringIO()
    assert run_plan([str(tmp_path / "missing.json"), str(tmp_path)], False, out, err) == 2
    assert out.getvalue() == ""
    assert len(err.getvalue().splitlines()) == 2


def test_defaults(tmp_path: Path) -> None:
    line = _planned(tmp_path)
    assert line["jobs"][0]["start"] == 0
    assert line["jobs"][0]["resources"] == [1]


def test_times_may_be_negative_and_fractions(tmp_path: Path) -> None:
    job = _job(requests=[{"resources": "/resource_id=2", "walltime": 0.5}])
    held = {"id": 7, "user": "bob", "start": -3.5, "walltime": 1.25, "resources": [1]}
    line = _planned(tmp_path, now=-3, jobs=[job], running=[held])
    assert (line["jobs"][0]["start"], line["jobs"][0]["end"]) == (-2.25, -1.75)


def test_jobs_come_out_in_input_order(tmp_path: Path) -> None:
    line = _planned(tmp_path, jobs=[_job(id=5), _job(id=3), _job(id=4, submitted=-1)])
    assert [job["id"] for job in line["jobs"]] == [5, 3, 4]
    assert [job["start"] for job in line["jobs"]] == [10, 0, 0]


def test_no_prediction_is_null_and_an_empty_list(tmp_path: Path) -> None:
    (job,) = _planned(tmp_path, jobs=[_job(requests=[{"resources": "/resource_id=3", "walltime": 10}])])["jobs"]
    reason = job.pop("reason")
    assert job == {"id": 1, "alternative": None, "start": None, "end": None, "resources": [], "verdict": "never"}
    assert "2 of 3 resource_id" in reason


@pytest.mark.parametrize(
    ("properties", "text", "expected"),
    [
        ("", "/resource_id=BEST", [1, 2]),
        ("", "{type = 'licence'}/resource_id=1", [9]),
        ("type = 'licence'", "/resource_id=1", [9]),
        ("type LIKE '%c%'", "{resource_id > 1}/resource_id=ALL", [9]),
        ("resource_id > 1", "/resource_id=ALL", [2]),
        ("network_address IS NULL", "/resource_id=1", None),
        ("", "{type = 'licence'}/resource_id=1+/nodes=1", [1, 2, 9]),
        ("rack = 1", "/resource_id=1", None),
        ("network_address = 'type'", "/resource_id=1", None),
    ],
)
def test_filters_and_the_type_of_resources(
    tmp_path: Path, properties: str, text: str, expected: list[int] | None
) -> None:
    """A resource whose type is not default goes to a group whose filter names ``type``, and to no other."""
    job = _job(properties=properties, requests=[{"resources": text, "walltime": 10}])
    (found,) = _planned(tmp_path, jobs=[job])["jobs"]
    assert found["resources"] == (expected or [])
    assert found["verdict"] == ("starts" if expected else "never")


def test_a_level_outside_the_hierarchy_is_never_served(tmp_path: Path) -> None:
    jobs = [_job(id=n, requests=[{"resources": text, "walltime": 1}]) for n, text in ((1, "/slot=1"), (2, "/nodes=1"))]
    rows = [{"id": 1, "network_address": "n1", "slot": 1, "core": 1}]
    found = _planned(tmp_path, resources=rows, hierarchy=["core"], jobs=jobs)["jobs"]
    assert [job["verdict"] for job in found] == ["never", "starts"]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"nw": 1}, ["scenario", "'nw'", "unknown"]),
        ({"now": "0"}, ["'now'"]),
        ({"now": True}, ["'now'"]),
        ({"security_time": -1}, ["'security_time'"]),
        ({"policy": "random"}, ["'policy'"]),
        ({"hierarchy": "core"}, ["'hierarchy'"]),
        ({"resources": {}}, ["'resources'"]),
        ({"resources": [{"network_address": "n1"}]}, ["resource at place 1", "'id'"]),
        ({"resources": [{"id": 1, "state": "Sleeping"}]}, ["resource 1", "'state'"]),
        ({"resources": [{"id": 1, "mem": [1]}]}, ["resource 1", "'mem'"]),
        ({"resources": [{"id": 1}, {"id": 1}]}, ["resource 1", "twice"]),
        ({"queues": [{"name": "a", "priority": 1, "policy": "karma"}]}, ["queue", "'policy'"]),
        ({"queues": [{"name": "a", "priority": 1}, {"name": "a", "priority": 2}]}, ["queue 'a'", "twice"]),
        ({"quotas": [{"user": "*", "resources": "many"}]}, ["quota", "'resources'"]),
        ({"running": [{"id": 1, "user": "a", "start": 0, "walltime": 1, "resources": [77]}]}, ["running job 1", "77"]),
        ({"running": [{"id": 1, "user": "a", "walltime": 1, "resources": [1]}]}, ["running job 1", "'start'"]),
        ({"jobs": [_job(user=None)]}, ["job 1", "'user'"]),
        ({"jobs": [{"id": 1, "requests": []}]}, ["job 1", "'requests'"]),
        ({"jobs": [_job(), _job()]}, ["job 1", "'id'", "twice"]),
        ({"jobs": [_job(queu="x")]}, ["job 1", "'queu'"]),
        ({"jobs": [_job(types="besteffort")]}, ["job 1", "'types'"]),
        ({"jobs": [_job(depends_on=["7"])]}, ["job 1", "'depends_on'"]),
        ({"jobs": [_job(reservation="now")]}, ["job 1", "'reservation'"]),
        ({"jobs": [_job(properties="mem >")]}, ["job 1", "'properties'"]),
        ({"jobs": [_job(properties="1=1) OR (2=2")]}, ["job 1", "'properties'"]),
        ({"jobs": [_job(requests=[{"resources": "/core=0", "walltime": 1}])]}, ["job 1", "request 1", "'resources'"]),
        ({"jobs": [_job(requests=[{"resources": "", "walltime": 1}])]}, ["job 1", "'resources'"]),
        ({"jobs": [_job(requests=[{"resources": "/core=1,walltime=1", "walltime": 1}])]}, ["job 1", "'resources'"]),
        ({"jobs": [_job(requests=[{"resources": "/core=1"}])]}, ["job 1", "'walltime'", "missing"]),
        ({"jobs": [_job(requests=[{"resources": "/core=1", "walltime": 0}])]}, ["job 1", "'walltime'"]),
        ({"jobs": [_job(requests=[{"resources": "{a b}/core=1", "walltime": 1}])]}, ["job 1", "'resources'"]),
        ({"jobs": [7]}, ["job", "not an object"]),
        ({"jobs": [_job(held=1)]}, ["job 1", "'held'", "true or false"]),
        ({"jobs": [_job(dates={"start": 1})]}, ["job 1", "'start'", "unknown", "start_by"]),
        ({"jobs": [_job(depends_on=["7,[5,[2"])]}, ["job 1", "'depends_on'", "no time"]),
        ({"queues": [{"name": "a", "priority": 1, "active": "no"}]}, ["queue at place 1", "'active'"]),
        ({"quotas": [{"valid": [[0]]}]}, ["quota at place 1", "'valid'", "2 entries"]),
        ({"quotas": [{"valid": [[None, 0]]}]}, ["quota at place 1", "'valid'", "None"]),
        ({"running": [_running(given_back=[77])]}, ["running job 5", "'given_back'", "77"]),
        ({"running": [_running(kept_amounts={"memory": 2})]}, ["running job 5", "'kept_amounts'", "memory"]),
        ({"running": [_running(amounts_given_back={"heat": 2})]}, ["running job 5", "'amounts_given_back'", "heat"]),
        ({"running": [_running(checkpoint=None)]}, ["running job 5", "'checkpoint'"]),
        ({"reservations": [_reserved(start="now")]}, ["reservation 6", "'start'", "'now'"]),
        ({"reservations": [_reserved(resources=[77])]}, ["reservation 6", "'resources'", "77"]),
        ({"reservations": [{"start": 0, "walltime": 1, "resources": []}]}, ["reservation at place 1", "'job'"]),
        ({"reservations": [_reserved(job=_job(id=6, requests=[{}]))]}, ["6: request 1", "'resources'", "missing"]),
        ({"reservations": [_reserved(job=_job(id=6, user=1))]}, ["6", "'user'", "not a string"]),
        ({"reservations": [_reserved(), _reserved()]}, ["job 6", "'id'", "twice"]),
        ({"walltime_requests": [{"job": 5, "seconds": 1.5}]}, ["walltime request 5", "'seconds'", "1.5"]),
        ({"walltime_requests": [{"seconds": 15}]}, ["walltime request at place 1", "'job'", "missing"]),
        ({"rules": {"power": {"sleep_time": 5}}}, ["'wakeup_time'", "missing"]),
        ({"rules": {"power": {"wakeup_time": 5, "sleep_time": 5, "keep": [["", "2"]]}}}, ["'keep'", "'2'"]),
        ({"ration": {"job": 5}}, ["'job'", "unknown", "jobs_per_user"]),
        ({"priorities": {"karma": {"user": "ann"}}}, ["'user'", "'ann'", "not a number"]),
        ({"priorities": {"usage": {"used_by_user": {"ann": "x"}}}}, ["'used_by_user'", "not a number"]),
        ({"outcomes": {"seven": "ok"}}, ["'outcomes'", "'seven'"]),
        ({"outcomes": {"7": "well"}}, ["'outcomes'", "notok"]),
        ({"spans": {"7": [0, 1, 2]}}, ["'spans'", "2 entries"]),
        ({"spans": {"7": [0, "x"]}}, ["'spans'", "not a number"]),
        ({"outages": [{"begin": 5, "resources": [77]}]}, ["outage at place 1", "'resources'", "77"]),
        ({"outages": [{"begin": 5, "resources": 77}]}, ["'resources'", "77 is not a list"]),
        ({"asleep": [77]}, ["'asleep'", "77"]),
        ({"filters": {"mem > 1": [77]}}, ["'filters'", "77"]),
        ({"power": {"n1": "on"}}, ["'power'", "asleep"]),
        ({"rested": [1]}, ["'rested'", "not a word"]),
        ({"local_dates": 0}, ["'local_dates'"]),
        ({"predictions": {"seven": 5}}, ["'predictions'", "'seven'"]),
        ({"predictions": {"7": "long"}}, ["'predictions'", "not a number"]),
        ({"predictions": {"7": 0}}, ["'predictions'", "'7'", "not above 0"]),
    ],
)
def test_what_is_not_a_scenario_names_the_key_and_the_job(
    tmp_path: Path, changes: dict[str, Any], words: list[str]
) -> None:
    status, lines, errors = _run(tmp_path, _scenario(**changes))
    assert (status, lines, len(errors)) == (2, [], 1)
    assert all(word in errors[0] for word in words), errors[0]


@pytest.mark.parametrize(
    "text",
    ["", "[]", "null", "{", '{"now": NaN}', '{"now": 1e999, "resources": [], "jobs": []}', b"\xff", "[" * 100_000],
)
def test_what_is_not_even_an_object(tmp_path: Path, text: str | bytes) -> None:
    status, lines, errors = _run(tmp_path, text)
    assert (status, lines, len(errors)) == (2, [], 1)


def test_decisions_are_told_when_asked_for(tmp_path: Path) -> None:
    changes = {"running": [_running(types=["besteffort"])], "reservations": [_reserved(start=0)]}
    status, (line,), errors = _run(tmp_path, _scenario(**changes), decisions=True)
    assert (status, errors) == (0, [])
    assert line["kill"] == line["decisions"]["victims"] == [5]
    assert line["decisions"]["awaiting"].keys() == {"6"}
    assert [(start["id"], start["resources"]) for start in line["decisions"]["starts"]] == [(1, [2])]


@pytest.mark.parametrize(
    ("entry", "kind", "left_out"),
    [
        (entries.QueueEntry, Queue, set()),
        (entries.QuotaEntry, QuotaRule, set()),
        (entries.DatesEntry, JobDates, set()),
        (entries.ReservationEntry, Reservation, set()),
        (entries.WalltimeRequestEntry, WalltimeRequest, set()),
        (entries.PowerRulesEntry, PowerRules, set()),
        (entries.RulesEntry, Rules, set()),
        (entries.RationEntry, PassShare, set()),
        (entries.UsageEntry, Usage, set()),
        (entries.KarmaEntry, KarmaRules, set()),
        (entries.FactorsEntry, FactorRules, set()),
        (entries.PrioritiesEntry, Priorities, set()),
    ],
)
def test_keys_are_the_fields_of_what_a_pass_sees(entry: type[Struct], kind: Any, left_out: set[str]) -> None:
    assert set(entry.__struct_fields__) == {field.name for field in fields(kind)} - left_out


def test_what_is_left_out_is_as_the_scheduler_has_it_by_default() -> None:
    found = read_scenario(
        _scenario(
            jobs=[_job(dates={})],
            queues=[{"name": "a", "priority": 1}],
            quotas=[{}],
            running=[_running()],
            walltime_requests=[{"job": 5, "seconds": 60}],
            priorities={"usage": {}, "karma": {}, "factors": {}},
            rules={"power": {"wakeup_time": 1, "sleep_time": 2}},
        )
    )
    assert found == Snapshot(
        now=0,
        platform=found.platform,
        filters=found.filters,
        waiting=(WaitingJob(1, "ann", alternatives=found.waiting[0].alternatives),),
        queues=(Queue("a", 1),),
        quotas=(QuotaRule(),),
        holding=(HoldingJob(5, "ann", 0, 10, (1,)),),
        walltime_requests=(WalltimeRequest(5, 60),),
        rules=Rules(power=PowerRules(1, 2)),
    )


def test_a_best_effort_reservation_that_is_cancelled_does_not_begin() -> None:
    cheap = {"job": _job(id=5, types=["besteffort"]), "start": 0, "walltime": 10, "resources": [1]}
    rows = [{"id": 1, "network_address": "n1"}]
    decided = decide(read_scenario(_scenario(resources=rows, reservations=[cheap])))
    assert (decided.victims, decided.starts) == ((5,), ())


def test_a_reservation_whose_date_has_come_waits_for_best_effort_jobs_to_go(tmp_path: Path) -> None:
    cheap = _running(id=9, types=["besteffort"], start=-10, walltime=20)
    asked = _job(reservation=-5)
    _, (found,), _ = _run(tmp_path, _scenario(resources=[{"id": 1}], running=[cheap], jobs=[asked]))
    (job,) = found["jobs"]
    assert found["kill"] == [9]
    assert (job["verdict"], job["start"], job["reason"][-9:]) == ("resources_busy", 0, "e room: 9")
