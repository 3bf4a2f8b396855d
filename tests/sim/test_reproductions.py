"""The experiments of a paper on its log, in little."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from research.ndrms import figures
from research.ndrms.reproduction import FIELDS, reproduce
from research.runs.pools import local_pool

TRACES = Path(__file__).resolve().parents[3] / "shared" / "traces"

pytestmark = pytest.mark.skipif(not TRACES.is_dir(), reason=f"no workload traces in {TRACES}")


def test_figure_7_in_little_is_the_same_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(figures, "QUICK_MOLDABLE_SHARES", (0.0,))
    answers = []
    for name in "ab":
        found, report, failed = reproduce(
            TRACES, [7], quick=True, output=tmp_path / name, as_json=True, pool=local_pool(1)
        )
        answers.append(found)
        assert failed == 0
        assert [claim["claim"] for claim in json.loads(report)["claims"]] == list("abcdef") * 4
    assert answers[0] == answers[1]
    (first, *others) = answers[0]
    assert (first.letter, first.holds, first.reading.judged) == ("a", "yes", True)
    assert {claim.holds for claim in others} == {"-"}
    rows = list(csv.DictReader((tmp_path / "a" / "figure07.csv").read_text(encoding="utf-8").splitlines()))
    assert [row["system"] for row in rows] == ["ours", "oar"]
    assert tuple(rows[0]) == FIELDS
    assert rows[1]["bytes"] == "1600"
    assert (tmp_path / "a" / "figure07.svg").read_bytes() != b""
