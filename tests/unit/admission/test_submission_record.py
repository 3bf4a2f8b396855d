from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from oarpy.model.errors import UsageError
from oarpy.model.request import parse_request
from oarpy.model.submission import Submission


def test_a_submission_survives_json() -> None:
    submission = Submission(
        user="ann",
        groups=("users",),
        queue="night",
        types=("besteffort", "deadline=2027-01-01"),
        properties="host = 'é'",
        alternatives=(
            parse_request("{a = ',+}'}/nodes=2/core=ALL+/licence=1,walltime=1:0:0"),
            parse_request("/core=4"),
        ),
        reservation=datetime(2026, 5, 1, 8, tzinfo=UTC),
        array_size=3,
        array_parameters=("1", "2", ""),
        dependencies=("ok:7",),
        environment={"PATH": "/bin"},
    )
    assert Submission.from_record(json.loads(json.dumps(submission.to_record()))) == submission


def test_what_has_its_default_value_is_left_out() -> None:
    assert Submission("ann").to_record() == {"user": "ann"}


@pytest.mark.parametrize(
    ("record", "part"),
    [
        ({}, "a submission without user"),
        ({"user": "ann", "que": "x"}, "unknown key 'que'"),
        ({"user": 5}, "user must be text, not int"),
        ({"user": " "}, "user must not be empty"),
        ({"user": "ann", "types": "besteffort"}, "types must be a list of texts, not str"),
        ({"user": "ann", "types": [""]}, "types must not be empty"),
        ({"user": "ann", "hold": 1}, "hold must be true or false, not int"),
        ({"user": "ann", "array_size": 0}, "array_size must be between 1 and 2147483647, not 0"),
        ({"user": "ann", "array_size": True}, "array_size must be a whole number, not bool"),
        ({"user": "ann", "checkpoint_signal": 65}, "checkpoint_signal must be between 1 and 64"),
        ({"user": "ann", "reservation": "soon"}, "reservation"),
        ({"user": "ann", "alternatives": ["/core=0"]}, "alternatives wrong: count 0 of level 'core'"),
        ({"user": "ann", "alternatives": [{"resources": "/core=1", "walltime": -5}]}, "alternatives must be between 1"),
        ({"user": "ann", "environment": {"A": 1}}, "environment must be text, not int"),
        ({"user": "ann", "command": "a\0b"}, "command must not hold a NUL"),
    ],
)
def test_a_wrong_record_is_refused_with_its_key(record: dict[str, object], part: str) -> None:
    with pytest.raises(UsageError) as caught:
        Submission.from_record(record)
    assert part in str(caught.value)


def test_another_value_makes_another_submission() -> None:
    submission = Submission("ann", types=("noop",))
    changed = submission.with_values({"types": ["besteffort"]})
    assert submission.types == ("noop",)
    assert changed == Submission("ann", types=("besteffort",))
    with pytest.raises(TypeError, match="no 'typo'"):
        submission.changed(typo=1)
