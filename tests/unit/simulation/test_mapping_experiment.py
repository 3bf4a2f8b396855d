"""The experiment on programs mapped over unlike nodes: its questions, its table and its claims."""

from __future__ import annotations

import io
import json
from pathlib import Path

from oarpy.questions.table import answer
from research.mapping.mapping_report import mapping_claims, reproduce_mapping
from research.mapping.published_sets import MODELS, SETS, TRANSFERS
from research.mapping.real_runs import REAL_SETS, RealRun, RealRuns, real_claims
from research.runs.pools import local_pool


def test_all_judged_claims_hold_and_the_table_has_each_set(tmp_path: Path) -> None:
    text, status = reproduce_mapping(tmp_path, local_pool(1), io.StringIO())
    assert status == 0, text
    rows = (tmp_path / "table.csv").read_text(encoding="utf-8").splitlines()
    assert len(rows) == 1 + len(TRANSFERS) * len(MODELS) * len(SETS)
    assert {"0.0,sync,7,16.81,38.2", "0.0,async,7,13.10,57.2"} < set(rows)


def test_questions_can_be_asked_alone(tmp_path: Path) -> None:
    path = tmp_path / "questions"
    reproduce_mapping(tmp_path / "none", local_pool(1), io.StringIO(), write=path)
    assert not (tmp_path / "none").exists()
    asked = path.read_text(encoding="utf-8").splitlines()
    assert all(sum(json.loads(line)["resources"].values()) == 40 for line in asked)
    assert answer(asked[0])["seconds"] == 40 * 60 / 3.29


def test_claims_are_open_without_runs_and_fall_with_other_values() -> None:
    assert {claim.holds for claim in mapping_claims({})} == {"-"}
    slower = {(transfer, model): dict.fromkeys(SETS, 1.0) for transfer in TRANSFERS for model in MODELS}
    assert {claim.holds for claim in mapping_claims(slower)} == {"no"}


def test_claims_about_real_runs_follow_their_times() -> None:
    def runs(sync: float, apart: float, measured: float) -> RealRuns:
        times = {"sync": sync, "async": apart}
        found = [RealRun(name, model, 50.0, times[model], 49.0, 0.01) for name in REAL_SETS for model in MODELS]
        return RealRuns(found, measured, 100.0)

    judged = {claim.claim: claim.holds for claim in real_claims(runs(50.0, 45.0, 5.0))}
    assert set(judged.values()) == {"yes"}
    fallen = {claim.claim: claim.holds for claim in real_claims(runs(30.0, 31.0, 5.1)) if claim.judged}
    assert fallen == dict.fromkeys(("5b-sync", "5b-async", "5c-real", "5a-real"), "no")
