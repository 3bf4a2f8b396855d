"""``oarpy doctor`` finds real faults, one line each, and finds nothing where there is none."""

from __future__ import annotations

import json
import os
import socket
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from oarpy.client import installation
from oarpy.client.health import node_health, server_health
from oarpy.modules.registry import MODULES
from oarpy.store import notifications
from oarpy.store.database import connect
from oarpy.store.platform import power
from oarpy.store.platform.health import NodeGpus, gpus
from oarpy.transport.probing import ProbedGpu, ProbeReport, StateDisk
from tests.harness.hand_written import rewrite
from tests.harness.sample_cluster import Connection, Shell, add_job, add_nodes
from tests.harness.waiting import until

pytestmark = pytest.mark.db


class Patient:
    """An installation with all modules, whose faults are asked for."""

    def __init__(self, shell: Shell, dsn: str, config: Path) -> None:
        self.shell = shell
        self.dsn = dsn
        self.config = config

    def findings(self) -> dict[str, list[str]]:
        """What is found by check, but for what the server of the tests has on purpose."""
        result = self.shell("oarpy", "doctor", "-J")
        found = json.loads(result.out)["findings"]
        assert result.status == (1 if found else 0)
        assert all(one["do"] for one in found)
        texts: dict[str, list[str]] = {}
        for one in found:
            if not one["what"].startswith(("fsync is off", "full_page_writes is off", "autovacuum is off")):
                texts.setdefault(one["check"], []).append(one["what"])
        return texts

    def configure(self, text: str) -> None:
        """Write the configuration."""
        self.config.write_text(f'[database]\nurl = "{self.dsn}"\n{text}', encoding="utf-8")


@pytest.fixture
def patient(
    shell: Shell, dsn: str, connection: Connection, cluster_environment: dict[str, str], tmp_path: Path
) -> Iterator[Patient]:
    installation.upgrade(dsn)
    with ExitStack() as stack:
        for name in (*MODULES, "recurrence"):
            led = stack.enter_context(connect(dsn, name))
            assert notifications.try_lead(led, name)
        made = Patient(shell, dsn, Path(cluster_environment["OARPY_CONFIG"]))
        made.configure(f'[nodes]\nstate_directory = "{tmp_path}"\n')
        yield made


def local(connection: Connection, *names: str) -> None:
    add_nodes(connection, *names)
    connection.execute("UPDATE nodes SET transport = 'local'")


def test_nothing_is_found_where_nothing_is_wrong(patient: Patient, connection: Connection) -> None:
    local(connection, "n1", "n2")
    assert patient.findings() == {}


def test_a_configuration_that_cannot_be_read_is_one_line(patient: Patient) -> None:
    patient.configure("[nodes]\nports = 1\n")
    result = patient.shell("oarpy", "doctor")
    assert (result.status, result.err, result.out.count("\n")) == (1, "", 1)
    assert result.out.startswith("configuration: ")


def test_settings_that_name_nothing(patient: Patient, tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_text("secret")
    key.chmod(0o644)
    patient.configure(
        f'[jobs]\nserver_prologue = "/nowhere/prologue"\n[nodes]\nkey_file = "{key}"\n[log]\nlevel = "loud"\n'
        "[energy]\nenabled = true\n"
    )
    found = patient.findings()
    assert [text.split(" ")[0] for text in found["configuration"]] == [
        "log.level",
        "jobs.server_prologue",
        "energy.enabled",
        "others",
    ]
    assert found["modules"] == ["no energy runs"]


def test_weights_of_what_nobody_can_use(patient: Patient, connection: Connection) -> None:
    patient.configure("[accounting]\nweights = {core = 1, gpu = 20, memory = 0.1, memmory = 1}\n")
    assert patient.shell("oaradmin", "consumables", "add", "memory", "--unit", "bytes").status == 0
    assert patient.findings()["accounting"] == ["accounting.weights weights 'memmory', and no consumable has this name"]


def test_commands_of_energy_that_failed(patient: Patient, connection: Connection) -> None:
    local(connection, "n1", "n2")
    connection.execute("INSERT INTO node_power (network_address, asked) VALUES ('n1', 'sleep'), ('n2', 'sleep')")
    power.record_failure(connection, ["n1", "n2"], "sleep", "'off' ended with 1: quota\nexceeded")
    power.record_failure(connection, ["n1"], "sleep", "'off' ended with 1: quota\nexceeded")
    assert "energy" not in patient.findings(), "it is off: nothing tries them again"
    patient.configure('[energy]\nenabled = true\nsleep_command = "off"\nwake_command = "on"\n')
    expected = "energy.sleep_command failed for 2 nodes (n1, n2), 2 times: 'off' ended with 1: quota exceeded"
    assert patient.findings()["energy"] == [expected]
    power.record_sent(connection, ["n1", "n2"], "sleep")
    assert "energy" not in patient.findings()


def test_a_database_that_is_away(patient: Patient) -> None:
    patient.config.write_text('[database]\nurl = "postgresql://127.0.0.1:1/oarpy"\n', encoding="utf-8")
    (what,) = patient.findings()["database"]
    assert what.startswith("the database cannot be reached")


def test_analysts_who_may_hold_up_the_server(patient: Patient, connection: Connection) -> None:
    """An owner of the database who is no superuser cannot take the functions away."""
    patient.shell.done("oarpy", "db", "analyst", "doctor_analyst")
    assert patient.findings() == {}
    connection.execute("GRANT EXECUTE ON FUNCTION pg_advisory_lock(bigint), pg_sleep(double precision) TO PUBLIC")
    assert patient.findings() == {
        "database": ["analysts may call pg_advisory_lock(bigint) and 1 others, which can hold up the server"]
    }
    patient.shell.done("oarpy", "db", "analyst", "doctor_analyst")
    assert patient.findings() == {}
    connection.execute("DROP OWNED BY doctor_analyst; DROP ROLE doctor_analyst")


def test_a_schema_without_its_trigger_stops_further_checks(patient: Patient, connection: Connection) -> None:
    connection.execute("DROP TRIGGER history_stays ON event_logs")
    result = json.loads(patient.shell("oarpy", "doctor", "-J").out)
    assert "modules" not in result["checked"]
    assert patient.findings()["schema"] == ["trigger history_stays of table event_logs is missing or disabled"]


def test_a_module_that_is_missing_and_one_that_is_silent(
    shell: Shell, dsn: str, connection: Connection, patient: Patient
) -> None:
    connection.execute(
        "INSERT INTO module_runs (module, pid, host, at) VALUES ('launcher', 1, 'here', now() - interval '2 hours')"
    )
    connection.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE datname = current_database() AND application_name = 'oarpy canceller'"
    )
    found = patient.findings()["modules"]
    assert found[0].startswith("launcher has reported nothing for 72")
    assert found[1] == "no canceller runs"
    connection.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE datname = current_database() AND pid <> pg_backend_pid()"
    )
    until(lambda: patient.findings()["modules"] == ["no module runs"], "it is still led")


def test_jobs_that_stay(patient: Patient, connection: Connection) -> None:
    local(connection, "n1")
    resources = [row[0] for row in connection.execute("SELECT resource_id FROM resources ORDER BY 1").fetchall()]
    launching = add_job(connection, "Launching", resources=resources[:1])
    add_job(connection, "Running", resources=resources[1:])  # started in the past, with a walltime of an hour
    rewrite(
        connection,
        "UPDATE job_state_logs SET during = tstzrange(lower(during) - interval '3 hours', NULL)"
        " WHERE upper_inf(during)",
    )
    found = patient.findings()["jobs"]
    assert found[0].startswith("1 jobs are Launching for up to 10")
    assert found[0].endswith(f": {launching}")
    assert found[1].startswith("1 jobs are Running after its walltime ")


def test_sockets_that_nobody_answers(patient: Patient, tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as answered:
        answered.bind(str(tmp_path / "gateway.sock"))
        answered.listen()
        text = f'[gateway]\nsocket = "{tmp_path}/gateway.sock"\n[web]\nlisten = "{tmp_path}/web.sock"\n'
        patient.configure(text)
        found = patient.findings()
    assert [text.split(" ")[0] for text in found["sockets"]] == ["web.listen"]


def test_a_full_disk_and_clocks_apart(
    patient: Patient, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    local(connection, "n1")
    ahead = time.time() + 500
    monkeypatch.setattr("oarpy.client.health.database_health.time.time", lambda: ahead)
    monkeypatch.setattr(server_health, "LEAST_PART", 2)
    monkeypatch.setattr(server_health, "LEAST_BYTES", 1 << 60)
    found = patient.findings()
    assert [text for text in found["clocks"] if text.startswith("the clock of the database is ")]
    assert Counter(text.endswith(" of n1") for text in found["disk"])[True] == 1


def test_a_node_that_cannot_be_asked_and_one_that_is_suspected(patient: Patient, connection: Connection) -> None:
    add_nodes(connection, "n1", "n2", "n3")
    connection.execute("UPDATE nodes SET transport = 'local' WHERE network_address = 'n2'")
    connection.execute("UPDATE resources SET state = 'Suspected' WHERE network_address = 'n2'")
    connection.execute("UPDATE resources SET state = 'Absent' WHERE network_address = 'n3'")
    found = patient.findings()["nodes"]
    assert len(found) == 2
    assert found[0].startswith("n1: cannot read ")
    assert found[1].startswith("n2 answers, and is Suspected for ")


def test_gpus_that_are_one_on_several_nodes_and_gpus_without_a_number(patient: Patient, connection: Connection) -> None:
    local(connection, "n1", "n2")
    connection.execute("ALTER TABLE resources ADD gpu integer, ADD gpudevice integer")
    connection.execute(
        "INSERT INTO resource_properties VALUES ('gpu', 'integer', false), ('gpudevice', 'integer', false)"
    )
    connection.execute("INSERT INTO exclusive_levels VALUES ('gpu', 'gpu') ON CONFLICT DO NOTHING")
    connection.execute("UPDATE resources SET gpu = 1, gpudevice = 0 WHERE network_address = 'n1'")
    assert patient.findings() == {}
    connection.execute("UPDATE resources SET gpu = 1 WHERE network_address = 'n2'")
    assert patient.findings() == {
        "gpus": [
            "gpu 1 of n2 have no gpudevice: jobs see, and open, all GPUs there",
            "gpu 1 is one GPU on 2 nodes (n1, n2): one job at a time gets it",
        ]
    }
    connection.execute("ALTER TABLE resources ALTER gpudevice TYPE bigint")
    connection.execute("UPDATE resources SET gpudevice = %s", [1 << 40])
    assert gpus(connection)["n1"].devices == [1 << 40]


def probed(gpus: int, lack_of_walls: str) -> ProbeReport:
    disk = StateDisk("/var", 1 << 30, 1 << 30, writable=True)
    return ProbeReport(
        0.0, (3, 11, 0), disk, [], [ProbedGpu(str(number), []) for number in range(gpus)], 1, lack_of_walls
    )


def test_gpus_that_a_node_does_not_have_and_nodes_without_walls() -> None:
    def found(report: ProbeReport, *, walls: bool = True) -> list[str]:
        return [one.what for one in node_health._gpus("g1", report, NodeGpus([0, 1, 2], []), walls=walls)]

    assert found(probed(3, "")) == []
    assert found(probed(2, "")) == ["g1 has 2 GPUs, numbered from 0, and resources with gpudevice 2"]
    assert found(probed(0, "why")) == []
    assert found(probed(3, "why")) == ["nothing keeps jobs of g1 from the GPUs of others: why"]
    assert found(probed(3, "why"), walls=False) == []


def test_nodes_whose_jobs_share_directories_that_they_should_have_for_themselves(
    patient: Patient, connection: Connection, tmp_path: Path
) -> None:
    local(connection, "n1")
    own, state = tmp_path / "own", tmp_path / "state"
    own.mkdir()
    patient.configure(f'[nodes]\nstate_directory = "{state}"\nprivate_directories = ["{own}"]\n')
    why = f"{own}: it is not root's, with the mode 1777"
    if os.geteuid() != 0:
        why = "the log-in of the server is not root there, or may not mount"
    assert patient.findings() == {"nodes": [f"jobs of n1 have no directories of their own: {why}"]}
    if os.geteuid() == 0:
        own.chmod(0o1777)
        assert patient.findings() == {}
