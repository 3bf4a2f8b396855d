"""The environment of a submission is what a program can be given, whoever sends it."""

from __future__ import annotations

import pytest

from oarpy.model.errors import UsageError
from oarpy.model.submission import Submission


@pytest.mark.parametrize(
    ("environment", "word"),
    [
        ({"A=B": "1"}, "'A=B' has a name"),
        ({"": "1"}, "'' has a name"),
        ({"A\0": "1"}, "has a name"),
        ({"A": "1\0"}, "'A' holds a NUL"),
        ({"A": "\udce9"}, "'A' holds bytes that are not UTF-8"),
        ({"A": "x" * 131_070}, "'A' of 131072 bytes"),
        ({"A": "\u00e9" * 70_000}, "'A' of 140001 bytes"),
        ({f"V{number}": "x" * 100_000 for number in range(11)}, "environment of 1100"),
    ],
)
def test_what_no_program_can_be_given_is_refused(environment: dict[str, str], word: str) -> None:
    with pytest.raises(UsageError) as refusal:
        Submission("ann", command="date", stdout="o", stderr="e", environment=environment).check()
    assert word in str(refusal.value)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    "environment",
    [
        {},
        {"A": "x" * 131_069},
        {"BASH_FUNC_f%%": "() { echo =\n}", "\u00e9": "=\u00e9"},
        {f"V{number}": "x" * 100_000 for number in range(10)},
    ],
)
def test_what_a_program_can_be_given_is_taken(environment: dict[str, str]) -> None:
    Submission("ann", command="date", stdout="o", stderr="e", environment=environment).check()
