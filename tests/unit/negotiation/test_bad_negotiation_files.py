"""A bad file of ``oarpy negotiate`` gives one line that names application, key and value, status 2, and no output."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from oarpy.commands.oarpy import app

from oarpy.client.boundary import execute
from oarpy.negotiation.simulation.reader import read_workload

MOLDABLE = {"P": 0.9, "min": 1, "max": 4, "single": 10}
GOOD: dict[str, Any] = {
    "clusters": {"red": {"hosts": 4}, "blue": {"hosts": 2, "speed": 2}},
    "applications": [{"id": 7, "arrives": 0, "moldable": MOLDABLE}],
}


def file(**changes: Any) -> str:
    """Return the text of the good file with other keys; None leaves a key out."""
    return json.dumps({key: value for key, value in (GOOD | changes).items() if value is not None})


def one(**changes: Any) -> str:
    """Return a file whose application has other keys; None leaves a key out."""
    entry = GOOD["applications"][0] | changes
    return file(applications=[{key: value for key, value in entry.items() if value is not None}])


def script(*requests: Any, **changes: Any) -> str:
    """Return a file whose application has this script."""
    return one(moldable=None, script=requests, **changes)


BAD = {
    "no JSON": ("{", ["not JSON"]),
    "no object": ("[]", ["list is not an object"]),
    "a key twice": ('{"timer": 1, "timer": 2}', ["'timer'", "twice"]),
    "not a number": (file(timer=1).replace('"timer": 1', '"timer": NaN'), ["NaN"]),
    "endless digits": (file(timer=1).replace('"timer": 1', '"timer": 1e-999999999'), ["1e-999999999"]),
    "unknown key": (file(timers=1), ["timers", "unknown key"]),
    "no clusters": (file(clusters=None), ["clusters", "missing"]),
    "no applications": (file(applications=None), ["applications", "missing"]),
    "negative fair-start": (file(fair_start=-1), ["fair_start", "-1"]),
    "negative timer": (file(timer=-0.5), ["timer", "-0.5"]),
    "negative security": (file(security=-2), ["security", "-2"]),
    "no rule of ghosts": (file(ghosts="never"), ["ghosts", "never", "needed", "always"]),
    "no rule of ranks": (file(rank="size"), ["rank", "size", "first-request"]),
    "nobody considered": (file(most=0), ["most", "0"]),
    "cluster without hosts": (file(clusters={"red": {"hosts": 0}}), ["red", "hosts", "0"]),
    "part of a host": (file(clusters={"red": {"hosts": 1.5}}), ["red", "hosts", "1.5"]),
    "cluster that stands still": (file(clusters={"red": {"hosts": 4, "speed": 0}}), ["red", "speed", "0"]),
    "unknown key of a cluster": (file(clusters={"red": {"host": 4, "hosts": 4}}), ["red", "'host'", "unknown key"]),
    "latency to nowhere": (file(latency=[["red", "green", 1]]), ["latency", "green", "red, blue"]),
    "latency to itself": (file(latency=[["red", "red", 1]]), ["latency", "red"]),
    "negative latency": (file(latency=[["red", "blue", -1]]), ["latency", "-1"]),
    "two latencies": (file(latency=[["red", "blue", 1], ["blue", "red", 3]]), ["latency", "3"]),
    "application is no object": (file(applications=[3]), ["application at place 1", "3"]),
    "no id": (one(id=None), ["application at place 1", "id", "missing"]),
    "id of zero": (one(id=0), ["id", "0"]),
    "id is a word": (one(id="7"), ["id", "'7'", "whole number"]),
    "id is true": (one(id=True), ["id", "True"]),
    "id twice": (file(applications=GOOD["applications"] * 2), ["application 7", "id", "twice"]),
    "never arrives": (one(arrives=None), ["application 7", "arrives", "missing"]),
    "arrives before time": (one(arrives=-3), ["application 7", "arrives", "-3"]),
    "arrives as a word": (one(arrives="5"), ["application 7", "arrives", "'5'", "a number"]),
    "unknown key of an application": (one(walltime=3), ["application 7", "walltime", "unknown key"]),
    "unknown cluster": (one(clusters=["green"]), ["application 7", "clusters", "green", "red, blue"]),
    "cluster twice": (one(clusters=["red", "red"]), ["application 7", "clusters", "red", "twice"]),
    "no cluster": (one(clusters=[]), ["application 7", "clusters"]),
    "negative delay": (one(delay=-1), ["application 7", "delay", "-1"]),
    "negative run time": (one(lasts=-1), ["application 7", "lasts", "-1"]),
    "asks for nothing": (one(moldable=None), ["application 7", "script", "exactly one"]),
    "asks in two ways": (one(rigid={"hosts": 1, "duration": 1}), ["application 7", "rigid and moldable"]),
    "delay with a script": (script([0, {"red": 1}, 5], delay=0), ["application 7", "delay", "script"]),
    "script descends": (script([5, {"red": 1}, 5], [3.5, {"red": 1}, 5]), ["application 7", "script", "3.5"]),
    "request of two parts": (script([0, {"red": 1}]), ["application 7", "script"]),
    "request without hosts": (script([0, {}, 5]), ["application 7", "script"]),
    "request for no host": (script([0, {"red": 0}, 5]), ["application 7", "script", "0", "red"]),
    "request for too many": (script([0, {"red": 5}, 5]), ["application 7", "script", "5", "1 to 4"]),
    "request for a foreign cluster": (
        script([0, {"red": 1}, 5], clusters=["blue"]),
        ["application 7", "script", "red"],
    ),
    "request of no time": (script([0, {"red": 1}, 0]), ["application 7", "script", "0"]),
    "rigid fits nowhere": (
        one(moldable=None, rigid={"hosts": 5, "duration": 1}),
        ["application 7", "rigid", "hosts", "5", "at most 4"],
    ),
    "rigid of no time": (one(moldable=None, rigid={"hosts": 1, "duration": 0}), ["application 7", "duration", "0"]),
    "moldable fits nowhere": (
        one(clusters=["blue"], moldable=MOLDABLE | {"min": 3}),
        ["application 7", "moldable", "min", "3", "at most 2"],
    ),
    "moldable least above most": (one(moldable=MOLDABLE | {"max": 0}), ["application 7", "max", "0"]),
    "moldable without work": (one(moldable=MOLDABLE | {"single": 0}), ["application 7", "single", "0"]),
    "more than parallel": (one(moldable=MOLDABLE | {"P": 1.5}), ["application 7", "P", "1.5"]),
    "margin below 1": (one(moldable=MOLDABLE | {"margin": 0.9}), ["application 7", "margin", "0.9"]),
    "moldable without most": (
        one(moldable={"P": 1, "min": 1, "single": 3}),
        ["application 7", "moldable", "max", "missing"],
    ),
    "complex without work": (one(moldable=None, complex={"work": 0, "iterations": 1}), ["application 7", "work", "0"]),
    "negative iterations": (
        one(moldable=None, complex={"work": 1, "iterations": -1}),
        ["application 7", "iterations", "-1"],
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_file_gives_one_line_and_status_2(name: str, tmp_path: Path, capsys: Any) -> None:
    text, words = BAD[name]
    path = tmp_path / "file.json"
    path.write_text(text, encoding="utf-8")
    assert execute(app, "oarpy", ["negotiate", str(path)]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.count("\n") == 1
    missing = [word for word in words if word not in printed.err]
    assert missing == [], printed.err


@pytest.mark.parametrize("content", [None, b"\xff"])
def test_a_file_that_cannot_be_read_is_named(content: bytes | None, tmp_path: Path, capsys: Any) -> None:
    path = tmp_path / "file.json"
    if content is not None:
        path.write_bytes(content)
    assert execute(app, "oarpy", ["negotiate", str(path)]) == 2
    printed = capsys.readouterr()
    assert (printed.out, printed.err.count("\n"), "file.json" in printed.err) == ("", 1, True)


def test_the_good_file_has_the_defaults() -> None:
    workload = read_workload(file())
    rules, (participant,) = workload.rules, workload.participants
    assert (rules.fair_start, rules.security, rules.ghosts, rules.rank, rules.most) == (
        5 * workload.ticks,
        0,
        "needed",
        "first-request",
        200,
    )
    assert (workload.timer, participant.delay, participant.clusters) == (workload.ticks, 0, ("red", "blue"))
