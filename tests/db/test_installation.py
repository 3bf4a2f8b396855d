"""``oarpy db``: the schema and the default rules are brought up to date, and what an admin changed is left alone."""

from __future__ import annotations

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
import pytest

from oarpy.admission.rules.default_rules import default_rules
from oarpy.client import installation
from oarpy.client.installation import SIGNATURE
from oarpy.postgres import embedded_server
from oarpy.store import notifications
from oarpy.store.database import connect
from oarpy.store.platform import admission_rules
from oarpy.store.schema import migrations
from tests.harness.bare_environment import bare_environment

pytestmark = pytest.mark.db

OARPY = Path(sys.executable).parent / "oarpy"
AT_HEAD = f"the schema is at revision {migrations.head()} ("
NAMES = tuple(rule.name for rule in default_rules())


def run(environment: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([OARPY, *arguments], env=environment, capture_output=True, text=True, check=False)


def succeed(environment: dict[str, str], *arguments: str) -> str:
    done = run(environment, *arguments)
    assert (done.returncode, done.stderr) == (0, ""), done
    return done.stdout


def test_upgrade_from_nothing_then_nothing_to_do(empty_dsn: str) -> None:
    first = installation.upgrade(empty_dsn)
    assert first.revisions[0] == migrations.baseline()
    assert first.rules.added == NAMES
    second = installation.upgrade(empty_dsn)
    assert (second.revisions, second.rules.added, second.rules.updated, second.rules.kept) == ((), (), (), ())
    assert installation.check(empty_dsn) == ()


def test_downgrade_refuses_under_a_server_and_below_the_baseline(dsn: str, cluster_environment: dict[str, str]) -> None:
    installation.upgrade(dsn)
    with connect(dsn, "automaton") as server:
        assert notifications.try_lead(server, "automaton")
        refused = run(cluster_environment, "db", "downgrade", migrations.baseline())
        assert (refused.returncode, refused.stderr.count("\n")) == (1, 1)
        assert "a server works on this database (stop it" in refused.stderr
    head = migrations.head()
    assert succeed(cluster_environment, "db", "downgrade", head) == f"the schema is at {head} already\n"
    older = run(cluster_environment, "db", "downgrade", "0064")
    told = f"oarpy: the schema does not go back to revisions before {migrations.baseline()}"
    assert (older.returncode, older.stderr) == (1, f"{told} (restore a dump that was made before the upgrade)\n")
    unknown = run(cluster_environment, "db", "downgrade", "9999")
    assert unknown.returncode == 4
    assert unknown.stderr.startswith("oarpy: the database cannot go back to revision '9999' (one of ")
    assert installation.check(dsn) == ()


def test_loaded_rules_are_those_of_the_files_and_signed(dsn: str) -> None:
    installation.upgrade(dsn)
    with connect(dsn, "test") as connection:
        stored = {row.name: (row.priority, row.enabled, row.text) for row in admission_rules.rules(connection)}
        assert stored == {rule.name: (rule.priority, rule.enabled, rule.text) for rule in default_rules()}
        assert {version.changed_by for name in NAMES for version in admission_rules.versions(connection, name)} == {
            SIGNATURE
        }


def test_rules_that_an_admin_changed_stay(dsn: str) -> None:
    installation.upgrade(dsn)
    edited, disabled, deleted = NAMES[:3]
    with psycopg.connect(dsn) as connection:
        connection.execute("UPDATE admission_rules SET rule_text = 'pass' WHERE name = %s", [edited])
        connection.execute("UPDATE admission_rules SET enabled = false WHERE name = %s", [disabled])
        connection.execute("DELETE FROM admission_rules WHERE name = %s", [deleted])
        connection.execute("INSERT INTO admission_rules (name, priority, rule_text) VALUES ('ours', 3, 'pass')")
    done = installation.upgrade(dsn).rules
    assert (done.added, done.updated, done.kept) == ((), (), (edited, disabled, deleted))
    with connect(dsn, "test") as connection:
        stored = {row.name: row for row in admission_rules.rules(connection)}
        assert stored[edited].text == "pass"
        assert not stored[disabled].enabled
        assert deleted not in stored
        assert "ours" in stored
    assert installation.check(dsn) == ()


def test_rule_of_an_older_version_is_renewed(dsn: str) -> None:
    name = NAMES[0]
    with connect(dsn, "test") as connection, connection.transaction():
        admission_rules.add(connection, name, "older text", priority=1, enabled=True, by=SIGNATURE)
    done = installation.upgrade(dsn).rules
    assert done.updated == (name,)
    with connect(dsn, "test") as connection:
        row = admission_rules.rule(connection, name)
        assert row is not None
        assert row.text == default_rules()[0].text
        assert [version.changed_by for version in admission_rules.versions(connection, name)] == [SIGNATURE, SIGNATURE]


def test_rule_of_an_admin_under_a_default_name_stays(dsn: str) -> None:
    with psycopg.connect(dsn) as connection:
        connection.execute("INSERT INTO admission_rules (name, priority, rule_text) VALUES (%s, 3, 'pass')", [NAMES[0]])
    done = installation.upgrade(dsn).rules
    assert done.kept == (NAMES[0],)
    assert done.added == NAMES[1:]


def test_check_misses_rules_that_were_never_loaded(dsn: str) -> None:
    assert installation.check(dsn)[0] == (
        f"default admission rule '{NAMES[0]}' was never loaded: run 'oarpy db upgrade'"
    )


def test_concurrent_upgrades_load_each_rule_once(empty_dsn: str, tmp_path: Path, bare: dict[str, str]) -> None:
    environment = {**bare, "OARPY_DATABASE_URL": empty_dsn}
    with ThreadPoolExecutor(3) as pool:
        outputs = list(pool.map(lambda _: json.loads(succeed(environment, "db", "upgrade", "-J")), range(3)))
    added = [name for output in outputs for name in output["rules"]["added"]]
    assert sorted(added) == sorted(NAMES)
    assert sum(len(output["revisions"]) > 0 for output in outputs) == 1
    assert installation.check(empty_dsn) == ()


@pytest.fixture
def bare() -> dict[str, str]:
    """An environment whose configuration says nothing."""
    return bare_environment()


def test_commands_on_a_configured_database(cluster_environment: dict[str, str], dsn: str) -> None:
    assert run(cluster_environment, "db", "check").returncode == 1
    assert f"{len(NAMES)} admission rules added\n" in succeed(cluster_environment, "db", "upgrade")
    assert succeed(cluster_environment, "db", "upgrade") == "schema is up to date\n"
    assert succeed(cluster_environment, "db", "check") == "the database is as it should be\n"
    assert json.loads(succeed(cluster_environment, "db", "check", "--json")) == {"problems": []}
    assert succeed(cluster_environment, "db", "url") == f"{dsn}\n"
    for word in ("start", "stop"):
        done = run(cluster_environment, "db", word)
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr == (
            "oarpy: the database is not the embedded one: database.url is set"
            " (start and stop that server where it runs)\n"
        )


def test_commands_on_the_embedded_database(bare: dict[str, str], fast_directory: Path, tmp_path: Path) -> None:
    folder = fast_directory / f"oarpy-installation-{tmp_path.name}"
    environment = {**bare, "OARPY_DATABASE_DIRECTORY": str(folder), "HOME": str(tmp_path)}
    try:
        done = run(environment, "db", "upgrade")
        assert (done.returncode, done.stdout) == (6, "")
        assert done.stderr.endswith("does not run (start it with: oarpy db start)\n")
        assert succeed(environment, "db", "start") == "the database runs (oarpy db url says where)\n"
        assert succeed(environment, "db", "start") == "the database runs (oarpy db url says where)\n"
        url = succeed(environment, "db", "url")
        succeed(environment, "db", "upgrade")
        assert succeed(environment, "db", "check") == "the database is as it should be\n"
        assert succeed(environment, "db", "stop") == "the database is stopped\n"
        assert json.loads(succeed(environment, "db", "stop", "-J")) == {"stopped": False, "served": False}
        assert succeed(environment, "db", "stop") == "the database did not run\n"
        succeed(environment, "db", "start")
        with connect(url.strip(), "automaton") as connection:
            assert notifications.try_lead(connection, "automaton")
            said = succeed(environment, "db", "stop").splitlines()
        assert said[0] == "the database is stopped"
        assert "oarpy server starts it again" in said[1]
        assert json.loads(succeed(environment, "db", "start", "-J")) == {"url": url.strip()}
        assert succeed(environment, "db", "check") == "the database is as it should be\n"
    finally:
        embedded_server.remove(folder)


def test_database_that_does_not_answer_is_one_line(bare: dict[str, str], tmp_path: Path) -> None:
    environment = {**bare, "OARPY_DATABASE_URL": f"postgresql:///oarpy?host={tmp_path}"}
    for word in ("upgrade", "check"):
        done = run(environment, "db", word)
        assert (done.returncode, done.stdout) == (6, "")
        assert done.stderr.count("\n") == 1


def test_upgrade_without_the_right_to_is_one_line(dsn: str, bare: dict[str, str], tmp_path: Path) -> None:
    with psycopg.connect(dsn) as connection:
        connection.execute("CREATE TABLE elsewhere (x int)")
    read_only = f"{dsn} options='-c default_transaction_read_only=on'"
    done = run({**bare, "OARPY_DATABASE_URL": read_only}, "db", "upgrade")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.count("\n") == 1


def test_the_upgrade_before_a_start_waits_for_a_database_that_is_away(tmp_path: Path) -> None:
    """As the unit does: the server comes after it."""
    dsn = embedded_server.start(tmp_path / "pg")
    embedded_server.stop(tmp_path / "pg")
    environment = bare_environment(OARPY_DATABASE_URL=dsn)
    try:
        assert run(environment, "db", "upgrade", "--wait", "0.1").returncode == 6
        command = [str(OARPY), "db", "upgrade", "--wait", "3600"]
        with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as waiting:
            embedded_server.start(tmp_path / "pg")
            printed, _ = waiting.communicate(timeout=90)
        assert waiting.returncode == 0
        assert printed.startswith(AT_HEAD)
    finally:
        embedded_server.remove(tmp_path / "pg")


def test_the_upgrade_before_a_start_has_the_embedded_server_run_meanwhile(tmp_path: Path) -> None:
    """As the unit does on a machine whose database is the embedded one: nobody else starts it before the server."""
    environment = bare_environment(OARPY_DATABASE_DIRECTORY=str(tmp_path / "pg"))
    try:
        assert run(environment, "db", "upgrade").returncode == 6
        assert AT_HEAD in succeed(environment, "db", "upgrade", "--wait", "60")
        assert not embedded_server.is_running(tmp_path / "pg")
        assert succeed(environment, "db", "upgrade", "--wait", "60") == "schema is up to date\n"
    finally:
        embedded_server.remove(tmp_path / "pg")
