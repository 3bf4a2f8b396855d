"""What rules ask of a real cluster through ``oarsub``, and how their mistakes are told."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from oarpy.store.platform import admission_rules
from tests.harness.oarsub_cluster import Connection, Submitter, contents

pytestmark = pytest.mark.db


def add_rule(connection: Connection, text: str, name: str = "mine", priority: int = 90) -> None:
    with connection.transaction():
        admission_rules.add(connection, name, text, priority=priority, enabled=True, by="root")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("note(f'{site.now():%Y}' == site.now().strftime('%Y'))", "True"),
        ("note(site.now().strftime('%H') in [f'{h:02}' for h in range(24)])", "True"),
        ("note(cores())", "4"),
        ("print(site.held(user=job.user).cores, site.held().jobs)", "0 0"),
        ("note(site.query('SELECT count(*) AS n FROM queues')[0]['n'] > 2)", "True"),
        ("note(settings('semester', 'none'))", "autumn"),
        (
            "long = site.now() - site.now().replace(year=2020)\n"
            "row = site.query('SELECT $1::timestamptz AS at, $2::interval AS long, $3::date AS day,'\n"
            "    ' $1 < now() + $2 AS soon, $4 * 2 AS half', site.now(), long, site.now().date(),\n"
            "    site.query('SELECT 0.25 AS part FROM queues')[0]['part'])[0]\n"
            "note(row['at'] == site.now() and row['long'] == long and row['day'] == site.now().date()\n"
            "    and row['soon'] and str(row['half']) == '0.50')",
            "True",
        ),
    ],
)
def test_a_rule_asks(
    connection: Connection, oarsub: Submitter, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, text: str, said: str
) -> None:
    configuration = tmp_path / "with_a_site.toml"
    own = Path(os.environ["OARPY_CONFIG"]).read_text(encoding="utf-8")
    configuration.write_text(f'{own}\n[site]\nsemester = "autumn"\n', encoding="utf-8")
    monkeypatch.setenv("OARPY_CONFIG", str(configuration))
    monkeypatch.setenv("OARPY_SUBMISSION_RULE_TABLES", "queues")
    add_rule(connection, text)
    result = oarsub("-l", "/nodes=1", "date")
    assert (result.status, result.err) == (0, "")
    assert said in result.out.splitlines()[0]


RENAMED = """
job.properties = job.properties.replace("speedy", "core")
if job.queue == "old":
    job.queue = "default"
"""


def test_a_rule_may_rename_what_there_was(connection: Connection, oarsub: Submitter) -> None:
    add_rule(connection, RENAMED, priority=1)
    assert oarsub("-p", "speedy > 0", "-q", "old", "date").status == 0
    refused = oarsub("-p", "speed > 0", "date")
    assert refused.err.startswith("oarsub: filter 'speed > 0': unknown property 'speed'")
    add_rule(connection, "refuse('nobody')", name="nobody", priority=2)
    assert oarsub("-p", "speed > 0", "date").err == refused.err
    assert "nobody" in oarsub("-p", "core > 0", "date").err


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("job.queue = 'nigth'", "unknown queue 'nigth', set by admission rule mine (tell the administrators)"),
        ("add_property('colour = 1')", "set by admission rule mine (tell the administrators)"),
        ("job.directory = 'relative'", "is not absolute, set by admission rule mine"),
        ("job.alternatives = ['/rack=1']", "unknown resource level 'rack', set by admission rule mine"),
        ("job.dependencies = ['999999']", "which does not exist, set by admission rule mine"),
    ],
)
def test_a_value_that_a_rule_set_wrongly_is_told_with_its_name(
    connection: Connection, oarsub: Submitter, text: str, message: str
) -> None:
    add_rule(connection, text)
    add_rule(connection, "job.name = 'later'", name="later", priority=95)
    before = contents(connection)
    result = oarsub("-l", "/nodes=1", "date")
    assert result.status != 0
    assert message in result.err
    assert contents(connection) == before


def test_what_the_user_set_wrongly_is_told_without_a_rule(oarsub: Submitter) -> None:
    result = oarsub("-q", "nigth", "-l", "/nodes=1", "date")
    assert "unknown queue 'nigth' (" in result.err
    assert "admission rule" not in result.err
