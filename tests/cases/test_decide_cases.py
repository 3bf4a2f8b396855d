"""The questions of ``docs/cases/decide`` have the answers that stand beside them."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from oarpy.questions.command import run_decide

CASES = sorted((Path(__file__).resolve().parents[2] / "docs" / "cases" / "decide").glob("*.json"))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.stem)
def test_the_answer_stands_beside_the_question(case: Path) -> None:
    out, err = io.StringIO(), io.StringIO()
    assert (run_decide([str(case)], out, err), err.getvalue()) == (0, "")
    assert out.getvalue() == case.with_suffix(".answer").read_text(encoding="utf-8")


def test_every_answer_has_its_question() -> None:
    answers = {path.stem for path in CASES[0].parent.glob("*.answer")}
    assert answers == {case.stem for case in CASES}
