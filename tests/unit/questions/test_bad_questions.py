"""Files that are no questions: one line each, which names the object and the key; other files are still answered."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest

from oarpy.questions.command import run_decide

JOB = {"id": 1, "procs": 1, "time": 10}
WAITING = {**JOB, "deadline": 50, "start": 20}
NEW = {"id": 2, "procs": 1, "time": 10, "deadline": 30}
ADMIT: dict[str, Any] = {"ask": "admit", "procs": 4, "new": NEW}
COALLOCATE: dict[str, Any] = {
    "ask": "coallocate",
    "providers": [{"name": "A", "procs": 4}],
    "job": {"procs": 2, "time": 5},
}
PROVIDER = {"name": "A", "procs": 4, "local": [{"id": 1, "start": 5, "time": 5, "procs": 4}]}
METAJOB = {"id": 7, "start": 20, "procs": 3, "time": 10, "parts": {"A": 3}}
COMPRESS: dict[str, Any] = {"ask": "compress", "provider": "A", "providers": [PROVIDER], "metajobs": [METAJOB]}
MAP: dict[str, Any] = {
    "ask": "map",
    "model": "sync",
    "iterations": 1,
    "processes": 1,
    "resources": {"r": 1},
    "throughput": {"r": {"a": 1}},
}
OFFERS: dict[str, Any] = {"ask": "offers", "procs": 4, "bag": {"tasks": 2, "time": 10, "deadline": 20}}
COMPOSE: dict[str, Any] = {
    "ask": "compose",
    "policy": "plb",
    "tasks": 2,
    "offers": [{"provider": "a", "tasks": 2, "end": 10}],
}
TASK = {"id": 1, "start": 20, "time": 10, "procs": 1, "bag": "b"}
ADVANCE: dict[str, Any] = {"ask": "advance", "procs": 2, "waiting": [TASK], "bags": {"b": 30}}
PROFILE: dict[str, Any] = {"ask": "predict", "predictor": "profile", "low": [1, 2], "base": 0, "full": 9}
RATE: dict[str, Any] = {"ask": "predict", "predictor": "rate", "measured": [[1, 1.0], [3, 2.0]]}
RUN: dict[str, Any] = {"ask": "predict", "predictor": "last2", "job": {"user": "u", "name": "n", "walltime": 10}}

GOOD = [ADMIT, COALLOCATE, COMPRESS, MAP, OFFERS, COMPOSE, ADVANCE, PROFILE, RATE, RUN]


def decided(folder: Path, *files: object) -> tuple[int, list[dict[str, Any]], list[str]]:
    """Return the status, the answers, and the lines on standard error, without the folder."""
    paths = []
    for number, file in enumerate(files):
        paths.append(folder / f"{number}.json")
        paths[-1].write_text(file if isinstance(file, str) else json.dumps(file), encoding="utf-8")
    out, err = io.StringIO(), io.StringIO()
    status = run_decide([str(path) for path in paths], out, err)
    errors = err.getvalue().replace(f"{folder}/", "").splitlines()
    return status, [json.loads(line) for line in out.getvalue().splitlines()], errors


def test_what_is_wrong_below_is_right_without_it(tmp_path: Path) -> None:
    status, answers, errors = decided(tmp_path, *GOOD)
    assert (status, len(answers), errors) == (0, len(GOOD), [])


@pytest.mark.parametrize(
    ("file", "words"),
    [
        ("", "not JSON"),
        ("[]", "list"),
        ('{"ask": "admit", "ask": "admit"}', "'ask' is there twice"),
        ({}, "'ask': None is missing"),
        ({"ask": "marry"}, "'ask': 'marry'"),
        ({**ADMIT, "color": 1}, "'color': unknown key"),
        ({"ask": "admit", "procs": 4}, "'new': missing"),
        ({**ADMIT, "procs": 4.0}, "'procs': 4.0 is not a whole number"),
        ({**ADMIT, "procs": 0}, "'procs': 0 is not a whole number"),
        ({**ADMIT, "procs": 10**9 + 1}, "'procs'"),
        ({**ADMIT, "now": 1.1e15}, "'now'"),
        ({**ADMIT, "now": None}, "'now'"),
        ({**ADMIT, "new": {**NEW, "time": 0}}, "new: key 'time'"),
        ({**ADMIT, "new": {**NEW, "id": 1.5}}, "new: key 'id'"),
        ({**ADMIT, "new": {**NEW, "id": True}}, "new: key 'id'"),
        ({**ADMIT, "new": {**NEW, "procs": 5}}, "new (id 2): key 'procs': 5"),
        ({**ADMIT, "new": {**NEW, "deadline": 9}}, "new (id 2): key 'deadline': 9"),
        ({**ADMIT, "new": {**NEW, "time": 1e-320}}, "new (id 2): key 'time'"),
        ({**ADMIT, "criterion": "sjf"}, "'criterion'"),
        ({**ADMIT, "running": [{**JOB, "start": 1}]}, "running 1 (id 1): key 'start': 1.0 is after now"),
        ({**ADMIT, "running": [{**JOB, "procs": 5, "start": 0}]}, "running 1 (id 1): key 'procs': 5"),
        ({**ADMIT, "waiting": [WAITING, {**WAITING, "id": "1"}]}, "waiting 2 (id '1'): key 'id'"),
        ({**ADMIT, "waiting": [{**WAITING, "start": -1}]}, "waiting 1 (id 1): key 'start': -1.0 is before now"),
        ({**ADMIT, "waiting": [{**WAITING, "start": 41}]}, "waiting 1 (id 1): key 'start': 41.0"),
        ({**ADMIT, "waiting": [{**WAITING, "ready": 21}]}, "waiting 1 (id 1): key 'start': 20.0"),
        (
            {**ADMIT, "waiting": [{**WAITING, "procs": 3}, {**WAITING, "id": 3, "procs": 2}]},
            "waiting 2 (id 3): key 'procs': 2 is more than is free",
        ),
        ({**COALLOCATE, "providers": []}, "'providers'"),
        ({**COALLOCATE, "providers": [{"name": "", "procs": 4}]}, "providers 1: key 'name'"),
        ({**COALLOCATE, "providers": [{"name": "A", "procs": 4}] * 2}, "providers 2: key 'name': 'A' is there twice"),
        (
            {**COALLOCATE, "providers": [{"name": "A", "procs": 4, "holds": [[0, 5, 5]]}, {"name": "A", "procs": 4}]},
            "providers 1: holds 1: key 'procs'",
        ),
        (
            {**COMPRESS, "providers": [*COMPRESS["providers"], {"name": "A", "procs": 4}]},
            "providers 2: key 'name': 'A'",
        ),
        ({**COALLOCATE, "first": "B"}, "'first': 'B'"),
        ({**COALLOCATE, "first": None}, "'first': None"),
        ({**COALLOCATE, "job": {"procs": 1, "time": 1, "at_most": {"B": 1}}}, "job: key 'at_most': 'B'"),
        ({**COALLOCATE, "job": {"procs": 1, "time": 1, "at_most": {"A": -1}}}, "job: key 'at_most'"),
        ({**COALLOCATE, "job": {"procs": 1, "time": 1, "overhead": -0.5}}, "job: key 'overhead'"),
        (
            {**COALLOCATE, "providers": [{"name": "A", "procs": 4, "holds": [[5, 5, 1]]}]},
            "providers 1: holds 1: key 'end': 5.0 is not after its start",
        ),
        (
            {**COALLOCATE, "providers": [{"name": "A", "procs": 4, "holds": [[0, 5, 3], [4, 6, 2]]}]},
            "providers 1: holds 2: key 'procs': 2",
        ),
        ({**COALLOCATE, "providers": [{"name": "A", "procs": 4, "holds": [[0, 5]]}]}, "[start, end, procs]"),
        ({**COALLOCATE, "providers": [{"name": "A", "procs": 4, "holds": [[0, 5, 1, 1]]}]}, "'holds': a list is not"),
        ({**COALLOCATE, "providers": [{"name": "A", "procs": 4, "holds": [[0, 5, 1.0]]}]}, "1.0 is not a whole number"),
        ({**COALLOCATE, "providers": [{"name": "A", "procs": 4, "speed": 1e-320}]}, "too long"),
        ({**COMPRESS, "provider": "B"}, "'provider': 'B'"),
        ({**COMPRESS, "metajobs": [{**METAJOB, "procs": 4}]}, "metajobs 1 (id 7): key 'parts': 3 do not add up"),
        ({**COMPRESS, "metajobs": [{**METAJOB, "parts": {"B": 3}}]}, "metajobs 1 (id 7): key 'parts': 'B'"),
        ({**COMPRESS, "metajobs": [{**METAJOB, "start": 9}]}, "metajobs 1 (id 7): key 'procs': 3"),
        ({**COMPRESS, "metajobs": [METAJOB, {**METAJOB, "id": 8}]}, "metajobs 2 (id 8): key 'procs': 3"),
        ({**COMPRESS, "metajobs": [{**METAJOB, "id": "1"}]}, "metajobs 1 (id '1'): key 'id'"),
        ({**COMPRESS, "metajobs": [{**METAJOB, "first": None}]}, "metajobs 1: key 'first': None"),
        ({**COMPRESS, "now": 6}, "providers 1: local 1 (id 1): key 'start': 5.0 is before now"),
        ({**MAP, "resources": {"r": 0}}, "'resources'"),
        ({**MAP, "resources": {"r": 1, "s": 1}}, "'throughput': an object lacks 's'"),
        ({**MAP, "throughput": {"r": {"a": 1}, "s": {"b": 1}}}, "throughput: key 's'"),
        ({**MAP, "throughput": {"r": {}}}, "throughput: key 'r'"),
        ({**MAP, "throughput": {"r": {"a": 0}}}, "above 0"),
        ({**MAP, "transfer": -1}, "'transfer'"),
        ({**OFFERS, "bag": {"tasks": 2, "time": 10, "deadline": 0}}, "bag: key 'deadline': 0.0 is not above now"),
        ({**OFFERS, "waiting": [JOB]}, "waiting 1 (id 1): key 'deadline'"),
        ({**OFFERS, "bag": {"tasks": 2, "time": 10}, "waiting": [JOB]}, "waiting 1 (id 1): key 'start'"),
        ({**OFFERS, "shares": [0]}, "'shares'"),
        ({**OFFERS, "shares": [101]}, "'shares'"),
        ({**OFFERS, "now": 1e15, "bag": {"tasks": 2, "time": 0.01}}, "bag: key 'time'"),
        ({**COMPOSE, "policy": "dplb"}, "offers 1: key 'provider': 'a' has no value in key 'power'"),
        (
            {**COMPOSE, "policy": "dplbv2", "power": {"a": 1}},
            "no value in key 'pending'",
        ),
        ({**COMPOSE, "tasks": 1.0}, "'tasks': 1 is not a whole number"),
        ({**COMPOSE, "deadline": True}, "'deadline': True is not a number"),
        ({**COMPOSE, "power": {"a": 0}}, "power: key 'a': 0"),
        ({**COMPOSE, "pending": {"a": -1}}, "pending: key 'a': -1"),
        ({**COMPOSE, "offers": [{"provider": "", "tasks": 1, "end": 1}]}, "offers 1: key 'provider'"),
        ({**COMPOSE, "offers": [{"provider": "a", "tasks": 1, "end": "1"}]}, "offers 1: key 'end'"),
        ({**ADVANCE, "bags": {}}, "waiting 1 (id 1): key 'bag': 'b' has no completion"),
        ({**ADVANCE, "bags": {"b": 29}}, "waiting 1 (id 1): key 'bag'"),
        ({**ADVANCE, "running": [[0, 40, 1, "b"]]}, "running 1: key 'bag'"),
        ({**ADVANCE, "running": [[0, 40, 1, None]]}, "'running': None"),
        ({**ADVANCE, "running": [[0, 40, 1, "b", 1]]}, "'running': a list is not a list [start, end, procs, bag]"),
        ({**ADVANCE, "running": [[0, 0, 1]]}, "running 1: key 'end'"),
        ({**ADVANCE, "running": [[1, 2, 1]]}, "running 1: key 'start'"),
        ({**ADVANCE, "running": [[-5, -1, 3]]}, "running 1: key 'procs'"),
        ({**PROFILE, "base": 2}, "'base': 2 is no place"),
        ({**PROFILE, "frames": None}, "'frames': None"),
        ({**PROFILE, "base": -1}, "'base'"),
        ({**PROFILE, "low": []}, "'low'"),
        ({**PROFILE, "low": [0, 1]}, "'base': 0 is a frame of 0 seconds"),
        ({**PROFILE, "steady": 0.1}, "'steady': unknown key"),
        ({**RATE, "measured": []}, "'measured'"),
        ({**RATE, "measured": [[3, 1], [3, 2]]}, "measured 2: key 'iterations': 3"),
        ({**RATE, "measured": [[1, 1, 1]]}, "'measured': a list is not"),
        ({**RATE, "measured": [[10**9, 1e-320]]}, "measured 1: key 'seconds'"),
        ({**RATE, "steady": 0}, "'steady'"),
        ({**RUN, "predictor": "oracle"}, "'predictor': 'oracle'"),
        ({**RUN, "history": [{"user": "u", "name": "n", "walltime": 1, "run": -1, "end": 0}]}, "history 1: key 'run'"),
    ],
)
def test_a_file_that_is_no_question_gets_a_line(tmp_path: Path, file: object, words: str) -> None:
    status, answers, errors = decided(tmp_path, file, RATE)
    assert (status, len(answers), len(errors)) == (2, 1, 1)
    assert errors[0].startswith("0.json: ")
    assert words in errors[0]


def test_a_file_that_is_not_there_gets_a_line(tmp_path: Path) -> None:
    out, err = io.StringIO(), io.StringIO()
    assert run_decide([str(tmp_path / "none.json")], out, err) == 2
    assert err.getvalue() == f"{tmp_path}/none.json: cannot be read: No such file or directory (give a JSON file)\n"
    assert not out.getvalue()


def test_very_many_tasks_are_counted(tmp_path: Path) -> None:
    """A thousand million tasks on three lanes, two of which begin later."""
    running = [{"id": "r", "procs": 2, "start": 0, "time": 3}]
    many = {**OFFERS, "procs": 3, "running": running, "bag": {"tasks": 10**9, "time": 10}, "shares": [100]}
    behind = {"id": "w", "procs": 3, "time": 1, "deadline": 10**11}
    dated = {**many, "waiting": [behind], "bag": {"tasks": 10**9, "time": 10, "deadline": 5 * 10**9}}
    status, answers, errors = decided(tmp_path, many, dated)
    assert (status, errors) == (0, [])
    assert answers[0]["offers"] == [{"tasks": 10**9, "end": 3333333340}]
    assert answers[1]["offers"] == [{"tasks": 10**9, "end": 5 * 10**9}]
