"""``oaradmissionrules``: from the command to the rows and their versions, and trials that store nothing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from oarpy.admission.rules.default_rules import default_rules
from tests.harness.oarsub_cluster import Connection, Submitter, build, contents, submitter
from tests.harness.sample_cluster import ME, Result

pytestmark = pytest.mark.db

DOUBLE = "# Give twice the walltime.\nset_walltime(4 * 3600, only_missing=True)\n"


class Rules:
    def __init__(self, oarsub: Submitter) -> None:
        self.oarsub = oarsub

    def __call__(self, *arguments: str) -> Result:
        result = self.oarsub(*arguments, command="oaradmissionrules")
        assert (result.status, result.err) == (0, ""), result
        return result

    def json(self, *arguments: str) -> object:
        return json.loads(self(*arguments, "--json").out)


@pytest.fixture
def rules(
    connection: Connection,
    cluster_environment: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> Rules:
    build(connection)
    (tmp_path / "double.py").write_text(DOUBLE, encoding="utf-8")
    (tmp_path / "no.py").write_text("refuse(f'{job.user} may not')\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return Rules(submitter(cluster_environment, monkeypatch, capsys))


def test_list_is_in_the_order_they_run(rules: Rules) -> None:
    listed = rules.json("list")
    assert isinstance(listed, list)
    assert [(row["name"], row["priority"], row["enabled"]) for row in listed] == [
        (rule.name, rule.priority, rule.enabled) for rule in default_rules()
    ]
    lines = rules("list").out.splitlines()
    assert len(lines) == 2 + len(default_rules())
    assert lines[0].split() == ["priority", "name", "enabled", "version", "description"]


def test_show(rules: Rules) -> None:
    text = next(rule.text for rule in default_rules() if rule.name == "besteffort")
    assert rules("show", "besteffort").out == text
    shown = rules.json("show", "besteffort")
    assert isinstance(shown, dict)
    assert shown["text"] == text


def test_life_of_a_rule(connection: Connection, rules: Rules) -> None:
    assert rules("add", "mine", "--file", "no.py", "--priority", "90").out == "# rule mine added, version 1\n"
    assert rules.oarsub("date").err == f"oarsub: {ME} may not (admission rule mine)\n"
    assert rules("disable", "mine").out == "# rule mine disabled, version 2\n"
    assert rules("disable", "mine").out == "# rule mine was disabled already, version 2\n"
    rules.oarsub.job_id("date")
    assert rules("edit", "mine", "--file", "double.py").out == "# rule mine changed, version 3\n"
    assert rules("edit", "mine", "--file", "double.py").out == "# rule mine unchanged, version 3\n"
    assert rules("edit", "mine", "--priority", "3").out == "# rule mine changed, version 4\n"
    assert rules("enable", "mine").out == "# rule mine enabled, version 5\n"
    job = rules.oarsub.job_id("date")
    assert connection.execute("SELECT message FROM jobs WHERE job_id = %s", (job,)).fetchall() == [("R=1,W=4:0:0,J=B",)]
    rules("delete", "mine")
    history = rules.json("show", "mine", "--history")
    assert isinstance(history, list)
    assert [
        (row["version"], row["priority"], row["enabled"], row["deleted"], row["changed_by"]) for row in history
    ] == [
        (1, 90, True, False, ME),
        (2, 90, False, False, ME),
        (3, 90, False, False, ME),
        (4, 3, False, False, ME),
        (5, 3, True, False, ME),
        (6, 3, True, True, ME),
    ]
    assert rules("show", "mine", "--version", "1").out == "refuse(f'{job.user} may not')\n"
    assert len(rules("show", "mine", "--history").out.splitlines()) == 2 + 6


def test_edit_in_an_editor(rules: Rules, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    editor = tmp_path / "editor"
    editor.write_text('#!/bin/sh\necho "note(\'edited\')" >> "$1"\n', encoding="utf-8")
    editor.chmod(0o700)
    monkeypatch.delenv("VISUAL", raising=False)
    monkeypatch.setenv("EDITOR", str(editor))
    assert rules("edit", "default_walltime").out == "# rule default_walltime changed, version 2\n"
    assert rules("show", "default_walltime").out.endswith("note('edited')\n")
    assert rules.oarsub("date").out.startswith("edited\n")


def test_failing_editor_changes_nothing(connection: Connection, rules: Rules, monkeypatch: pytest.MonkeyPatch) -> None:
    before = contents(connection)
    monkeypatch.delenv("VISUAL", raising=False)
    for editor in ("false", "/no/such/editor", "'"):
        monkeypatch.setenv("EDITOR", editor)
        result = rules.oarsub("edit", "default_walltime", command="oaradmissionrules")
        assert result.status == 1
        assert result.err.count("\n") == 1
    assert contents(connection) == before


def test_trial_of_a_new_text_on_recent_submissions(connection: Connection, rules: Rules) -> None:
    rules.oarsub.job_id("date")
    rules.oarsub.job_id("-l", "/nodes=1,walltime=1", "date")
    before = contents(connection)
    trial = rules.json("test", "default_walltime", "--file", "double.py")
    assert isinstance(trial, dict)
    assert trial["tried"] == 2
    (difference,) = trial["differences"]
    assert (difference["submission"], difference["user"]) == ("submission 1", ME)
    assert "7200" in difference["changes"][0]
    assert "14400" in difference["changes"][0]
    assert rules("test", "mine", "--file", "no.py", "--last", "1").out == (
        "# the rules as they are -> rule mine with the text of the file\n"
        f"submission 2 ({ME}):\n"
        f"  admitted -> refused: {ME} may not (admission rule mine)\n"
        "# 1 submissions tried, 1 would fare differently\n"
    )
    assert contents(connection) == before


def test_trial_of_a_rule_as_it_is(rules: Rules, tmp_path: Path) -> None:
    (tmp_path / "given.toml").write_text(
        "[[submission]]\ntypes = ['besteffort']\n"
        "[[submission]]\nuser = 'ann'\nalternatives = ['/nodes=2,walltime=1']\n",
        encoding="utf-8",
    )
    trial = rules.json("test", "besteffort", "--submission", "given.toml")
    assert isinstance(trial, dict)
    assert [difference["submission"] for difference in trial["differences"]] == ["given.toml [1]"]
    everything = rules.json("test", "--submission", "given.toml")
    assert isinstance(everything, dict)
    assert [difference["user"] for difference in everything["differences"]] == [ME, "ann"]


CASES = """
[[case]]
name = "a walltime is kept"
submission = { user = "ann", alternatives = ["/nodes=1,walltime=1"] }

[[case]]
name = "twice the default"
submission = { user = "ann", alternatives = ["/nodes=1"] }
expect.changes.alternatives = [{ resources = "/nodes=1", walltime = 14400 }]
"""


def test_a_rule_is_proved_by_cases(connection: Connection, rules: Rules, tmp_path: Path) -> None:
    (tmp_path / "double.toml").write_text(CASES, encoding="utf-8")
    before = contents(connection)
    proved = rules("test", "default_walltime", "--file", "double.py", "--cases", "double.toml").out
    assert proved == "# rule default_walltime: 2 cases, 0 failed\n"
    failed = rules.oarsub("test", "default_walltime", "--cases", "double.toml", command="oaradmissionrules")
    assert failed.status == 1
    lines = failed.out.splitlines()
    assert (lines[0], lines[-1]) == ("twice the default:", "# rule default_walltime: 2 cases, 1 failed")
    assert "'walltime': 7200" in lines[1]
    told = rules.oarsub("test", "default_walltime", "--cases", "double.toml", "-J", command="oaradmissionrules")
    record = json.loads(told.out)
    assert (told.status, record["rule"]) == (1, "default_walltime")
    assert [case["passed"] for case in record["cases"]] == [True, False]
    for wrong in (["--cases", "double.toml"], ["mine", "--cases", "double.toml", "--last", "3"]):
        assert rules.oarsub("test", *wrong, command="oaradmissionrules").status == 2
    for unknown in (["mine", "--cases", "double.toml"], ["default_walltime", "--cases", "nowhere.toml"]):
        result = rules.oarsub("test", *unknown, command="oaradmissionrules")
        assert (result.status in (2, 4), result.err.count("\n")) == (True, 1)
    assert contents(connection) == before


def test_defaults_are_loaded_once_and_never_over_the_admins_changes(connection: Connection, rules: Rules) -> None:
    rules("delete", "besteffort")
    rules("edit", "default_walltime", "--file", "double.py")
    before = contents(connection)
    kept = ["besteffort", "default_walltime"]
    assert rules.json("load-defaults") == {"added": [], "updated": [], "kept": kept}
    assert rules("load-defaults").out == "# 0 added\n# 0 updated\n# 2 kept: besteffort, default_walltime\n"
    assert contents(connection) == before
