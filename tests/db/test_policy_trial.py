"""``oaradmin policy try``: both sides are replays, nothing changes where nothing is changed, and losers are named."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.db.test_history_replay import BIRTH, Past, add, some_jobs
from tests.harness.sample_cluster import Connection, Shell
from tests.harness.small_cluster import SmallCluster

pytestmark = pytest.mark.db


@pytest.fixture
def cluster(connection: Connection) -> SmallCluster:
    small = SmallCluster(connection)
    small.add_nodes("n1", "n2")
    return small


def days() -> str:
    return str((datetime.now(UTC) - BIRTH).total_seconds() / 86400 + 1)


def trial(shell: Shell, *arguments: str) -> dict[str, Any]:
    return dict(json.loads(shell.done("oaradmin", "policy", "try", "--days", days(), "-J", *arguments)))


@pytest.fixture(autouse=True)
def _admin(monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.harness.sample_cluster import ME

    monkeypatch.setenv("OARPY_SUBMISSION_ADMINS", f"root,{ME}")


def test_nothing_changes_and_then_narrow_jobs_lose_what_backfilling_gave_them(
    cluster: SmallCluster, shell: Shell
) -> None:
    for past in some_jobs(4):
        add(cluster, past)
    same = trial(shell)
    assert (same["jobs"], same["changes"]) == (48, [])
    assert {one["difference"] for one in same["groups"]} == {0}
    other = trial(shell, "--policy", "fcfs")
    groups = {(one["kind"], one["name"]): one for one in other["groups"]}
    assert set(groups) == {("queue", "default"), ("user", "ann"), ("user", "bob")}
    bob = groups["user", "bob"]
    assert bob["difference"] == bob["wait_changed"] - bob["wait_now"] > 0
    assert bob["slowdown_changed"] > bob["slowdown_now"]
    text = shell.done("oaradmin", "policy", "try", "--days", days(), "--policy", "fcfs")
    assert text.startswith("48 jobs since 2026-03-0")
    page = shell.done("oaradmin", "policy", "try", "--days", days(), "--policy", "fcfs", "--html")
    assert page.startswith("<!doctype html>")
    assert "policy fcfs" in page
    assert "<td>bob</td>" in page
    assert 'class="bar more"' in page


def test_quotas_and_weights(cluster: SmallCluster, shell: Shell, tmp_path: Any) -> None:
    for place in range(3):
        add(cluster, Past(place, 60, ("/core=1,walltime=0:1:0",)))
    quotas = tmp_path / "quotas.json"
    quotas.write_text('[{"user": "/", "resources": 1}]')
    limited = trial(shell, "--quotas", str(quotas))
    assert [one["wait_changed"] > one["wait_now"] == 0 for one in limited["groups"]] == [True, True]
    # big jobs first, or small ones first, while one job holds everything
    add(cluster, Past(1000, 600, ("/nodes=2,walltime=0:10:0",), "eve"))
    add(cluster, Past(1001, 600, ("/core=1,walltime=0:10:0",), "bob", start=1600))
    add(cluster, Past(1002, 600, ("/nodes=2,walltime=0:10:0",), "ann", start=2200))
    sized = ("--order", "multifactor", "--weight", "age_weight=0", "--weight", "karma_weight=0")
    large = trial(shell, *sized, "--weight", "size_weight=9", "--weight", "large_size_first=true")
    waits = {one["name"]: one["difference"] for one in large["groups"] if one["kind"] == "user"}
    assert waits["bob"] > 0
    assert "size_weight=9" in large["changes"]


def test_rules_that_read_tables_are_tried_and_refusals_have_their_reason(
    cluster: SmallCluster, shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OARPY_SUBMISSION_RULE_TABLES", "teams")
    cluster.sql("CREATE TABLE teams (member text, team text)")
    cluster.sql("INSERT INTO teams VALUES ('ann', 'red')")
    for place, user in enumerate(("ann", "bob", "bob")):
        add(cluster, Past(60 * place, 60, ("/core=1,walltime=0:1:0",), user, start=60 * place))
    (tmp_path / "10_teams.py").write_text(
        "if not site.query('SELECT team FROM teams WHERE member = $1', job.user):\n    refuse('in no team')\n"
        "if site.cores('/nodes=1') != 2 or site.held(user='nobody').jobs:\n    refuse('sizes')\n"
    )
    found = trial(shell, "--rules", str(tmp_path))
    assert (found["refused"], found["reasons"]) == (2, [["in no team", 2]])
    text = shell.done("oaradmin", "policy", "try", "--days", days(), "--rules", str(tmp_path))
    assert "refused, 2 of them: in no team\n" in text


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (("--weight", "age=1"), "is no weight"),
        (("--weight", "age_weight=much"), "is no value"),
        (("--weight", 'age_weight="much"'), "weights: "),
        (("--policy", "magic"), "unknown policy"),
        (("--order", "magic"), "unknown order"),
        (("--days", "0"), "0 days are no period"),
    ],
)
def test_what_makes_no_sense_is_one_line(
    cluster: SmallCluster, shell: Shell, words: tuple[str, ...], what: str
) -> None:
    add(cluster, Past(0, 60, ("/core=1,walltime=0:1:0",)))
    refused = shell("oaradmin", "policy", "try", "--days", days(), *words)
    assert (refused.status, refused.err.count("\n")) == (2, 1), refused
    assert what in refused.err


def test_only_admins_may(cluster: SmallCluster, shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    from oarpy.client.session import Session

    def refuse(self: Session, what: str) -> None:
        from oarpy.model.errors import NotAllowed

        raise NotAllowed(f"only an admin may {what}")

    monkeypatch.setattr(Session, "require_admin", refuse)
    assert shell("oaradmin", "policy", "try").status == 5
