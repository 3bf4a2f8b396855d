"""Figures for Prometheus: what they say is so, whoever has a token reads them, and the dashboard names no other."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from oarpy.gateway.figures import Figures
from tests.harness.gateway_process import gateway
from tests.harness.oarsub_cluster import build, run_pass, settings
from tests.harness.sample_cluster import Connection, Shell, add_job, add_nodes
from tests.harness.waiting import until
from tests.harness.web_client import BOB, token, web_client, web_settings

pytestmark = pytest.mark.db

ROOT = Path(__file__).resolve().parent.parent.parent
SAMPLE = re.compile(r"^(?P<name>[a-z0-9_]+)(?:\{(?P<labels>.*)\})? (?P<value>\S+)$")


def samples(text: str) -> dict[str, float]:
    """Every sample by name and labels; each family must have said what it is."""
    found: dict[str, float] = {}
    declared = set(re.findall(r"^# TYPE (\S+) (?:gauge|counter)$", text, re.MULTILINE))
    assert declared == set(re.findall(r"^# HELP (\S+) ", text, re.MULTILINE))
    for line in text.splitlines():
        if not line.startswith("#"):
            match = SAMPLE.match(line)
            assert match, line
            assert match["name"] in declared
            found[line.rpartition(" ")[0]] = float(match["value"])
    return found


def test_figures_of_the_database(shell: Shell, connection: Connection) -> None:
    resources = add_nodes(connection, "n1", "n2")
    add_job(connection, "Running", resources=resources[:1])
    add_job(connection)
    add_job(connection, "Hold")
    connection.execute("UPDATE resources SET state = 'Suspected' WHERE network_address = 'n2'")
    connection.execute(
        "UPDATE nodes SET gpus = 4, load_average = 1.5, available_memory = 2, load_at = to_timestamp(7)"
        " WHERE network_address = 'n1'"
    )
    assert samples(shell.done("oarpy", "metrics"))["oarpy_longest_wait_seconds"] > 0
    connection.execute("UPDATE jobs SET submitted_at = now() - interval '1 hour' WHERE state = 'Waiting'")
    connection.execute("UPDATE jobs SET submitted_at = now() - interval '1 day' WHERE state = 'Hold'")
    found = samples(shell.done("oarpy", "metrics"))
    assert 3600 <= found["oarpy_longest_wait_seconds"] < 86400
    assert found['oarpy_jobs{state="Running",queue="default"}'] == 1
    assert found['oarpy_jobs{state="Waiting",queue="default"}'] == 1
    assert found['oarpy_resources{state="Suspected",type="default"}'] == 2
    assert found['oarpy_resources_held{type="default"}'] == 1
    assert (found['oarpy_nodes{state="Alive"}'], found['oarpy_nodes{state="Suspected"}']) == (1, 1)
    assert found['oarpy_node_load1{node="n1"}'] == 1.5
    assert found['oarpy_node_memory_available_bytes{node="n1"}'] == 2 << 20
    assert found['oarpy_node_gpus{node="n1"}'] == 4
    assert {'oarpy_node_load1{node="n2"}', 'oarpy_node_gpus{node="n2"}'}.isdisjoint(found)
    assert found['oarpy_module_up{module="launcher"}'] == 0


def test_nobody_waits(shell: Shell, connection: Connection) -> None:
    add_job(connection, "Hold")
    assert samples(shell.done("oarpy", "metrics"))["oarpy_longest_wait_seconds"] == 0


def test_passes_count_what_they_start_and_how_long_they_took(shell: Shell, connection: Connection) -> None:
    build(connection)
    before = samples(shell.done("oarpy", "metrics"))
    for _ in range(2):
        add_job(connection)
    run_pass(connection)
    run_pass(connection)
    after = samples(shell.done("oarpy", "metrics"))
    grown = {name: after[f"oarpy_{name}_total"] - before[f"oarpy_{name}_total"] for name in ("passes", "jobs_started")}
    assert grown == {"passes": 2, "jobs_started": 2}
    assert after["oarpy_pass_seconds_total"] > after["oarpy_last_pass_seconds"] > 0


def test_counts_at_their_largest_hold_up_no_pass(connection: Connection) -> None:
    build(connection)
    connection.execute("UPDATE scheduling_passes SET jobs_started = 9007199254740991, seconds_spent = 9007199254740991")
    add_job(connection)
    run_pass(connection)
    ((started, spent),) = connection.execute("SELECT jobs_started, seconds_spent FROM scheduling_passes").fetchall()
    assert (started, spent) == (0, 9007199254740991)


def test_prometheus_needs_a_token(dsn: str, connection: Connection) -> None:
    build(connection)
    with web_client(web_settings(dsn)) as client:
        assert client.get("/metrics").status_code == 401
        answer = client.get("/metrics", headers=token(connection, BOB))
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert "oarpy_passes_total" in samples(answer.text)


def test_the_gateway_leaves_its_figures_beside_its_socket_while_it_runs(
    connection: Connection, cluster_environment: dict[str, str]
) -> None:
    build(connection)
    environment = {**cluster_environment, **settings()}
    with gateway(environment, workers=2) as running:
        file = Path(f"{running.path}.prom")
        until(file.exists, "the gateway writes its figures")
        found = samples(file.read_text())
        assert found["oarpy_gateway_workers"] >= 1
    assert not file.exists()


def test_the_file_of_the_gateway_is_renewed_now_and_then(tmp_path: Path) -> None:
    figures = Figures(str(tmp_path / "g.prom"))
    figures.tend(100.0, 2, 1, 0)
    figures.requests = 5
    figures.tend(101.0, 2, 1, 0)
    assert samples((tmp_path / "g.prom").read_text())["oarpy_gateway_calls_total"] == 0
    figures.tend(111.0, 2, 1, 0)
    assert samples((tmp_path / "g.prom").read_text())["oarpy_gateway_calls_total"] == 5
    assert [path.name for path in tmp_path.iterdir()] == ["g.prom"]


def test_the_dashboard_and_the_guide_name_figures_that_exist(
    shell: Shell, connection: Connection, tmp_path: Path
) -> None:
    Figures(str(tmp_path / "g.prom")).tend(100.0, 0, 0, 0)
    text = shell.done("oarpy", "metrics") + (tmp_path / "g.prom").read_text()
    known = set(re.findall(r"^# TYPE (\S+) ", text, re.MULTILINE))
    dashboard = json.loads((ROOT / "packaging/grafana/oarpy.json").read_text())
    asked = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    used = {name for one in asked for name in re.findall(r"oarpy_\w+", one)}
    assert len(used) > 10
    assert used <= known
    guide = (ROOT / "docs/guides/admin.md").read_text().partition("## Monitoring")[2].partition("\n## ")[0]
    assert set(re.findall(r"`(oarpy_\w+)`", guide)) == known
