"""A small round of the comparison of counted hosts with a cluster of real hosts."""

from __future__ import annotations

import pytest

from tests.campaigns.negotiation_places import main


def test_most_starts_are_those_of_counts_and_the_first_in_line_is_never_earlier(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["--count", "60"]) == 0
    told = {line.split(maxsplit=1)[1]: int(line.split()[0]) for line in capsys.readouterr().out.splitlines()}
    assert told["first in line, same start on the cluster"] == 60
    behind = {what: number for what, number in told.items() if what.startswith("behind others")}
    assert behind["behind others, same start on the cluster"] >= 0.9 * sum(behind.values())
