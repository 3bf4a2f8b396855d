"""Options whose value may be left out."""

from __future__ import annotations

import pytest

from oarpy.client.options.optional_values import OptionalValue, spread

OPTIONS = {
    "-j": OptionalValue("--job"),
    "--job": OptionalValue("--job"),
    "-u": OptionalValue("--user"),
    "-e": OptionalValue("--events", r"\d{4}-"),
}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (["-j"], ["--job="]),
        (["-j", "1", "2"], ["--job=1", "2"]),
        (["-j", "1", "-j", "2"], ["--job=1", "--job=2"]),
        (["--job", "1"], ["--job=1"]),
        (["--job=1"], ["--job=1"]),
        (["-sj", "1", "-J"], ["-s", "--job=1", "-J"]),
        (["-u", "-f"], ["--user=", "-f"]),
        (["-j", "-5"], ["--job=", "-5"]),
        (["-j", ""], ["--job=", ""]),
        (["-e", "node1"], ["--events=", "node1"]),
        (["-e", "2026-05-01"], ["--events=2026-05-01"]),
        (["--", "-j", "1"], ["--", "-j", "1"]),
        (["-l", "-x1", "--sql", "a = 1"], ["-l", "-x1", "--sql", "a = 1"]),
    ],
)
def test_values_are_attached(given: list[str], expected: list[str]) -> None:
    assert spread(given, OPTIONS) == expected
