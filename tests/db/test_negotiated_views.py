"""What launchers are shown besides profiles of hosts: levels, hosts free throughout, quotas, changes of clusters."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from oarpy.store.platform import cluster_links
from tests.harness.gateway_process import GatewayProcess, gateway
from tests.harness.launchers import LauncherProcess, launcher, negotiator
from tests.harness.oarsub_cluster import build, decide, run_pass, settings
from tests.harness.sample_cluster import Connection
from tests.harness.waiting import until

pytestmark = pytest.mark.db


@pytest.fixture
def running(connection: Connection, cluster_environment: dict[str, str]) -> Iterator[GatewayProcess]:
    """A gateway and a negotiator before three equal hosts of four cores."""
    build(connection)
    connection.execute("UPDATE resources SET mem = 8 WHERE type = 'default'")
    environment = {**cluster_environment, **settings(), "TZ": "UTC"}
    with gateway(environment, workers=2) as found, negotiator(environment, found):
        yield found


def asking(connection: Connection, one: LauncherProcess, job: int, **request: object) -> None:
    """Ask for hosts, and wait until that is stored."""
    one.say("request", tag=1, walltime=600, **request)
    row = "SELECT state FROM applications WHERE job_id = %s"
    until(lambda: connection.execute(row, [job]).fetchone() == ("RequestSent",), "the request is stored")


def test_cores_are_counted_those_free_throughout_told_and_changes_of_clusters_named(
    running: GatewayProcess, connection: Connection
) -> None:
    one = launcher(running)
    one.say("subscribe", level="atom")
    assert one.hear("refused")["code"] == 3
    one.say("subscribe", level="core", exact=True)
    job = one.hear("subscribed")["job"]
    first = one.hear("changeNotify")
    (begin,) = first["changes"]["all"]
    assert first["exact"] == {"all": [[12, [[begin, None]]]]}
    assert "cinfo" not in first
    one.say("listClustersInfo")
    facts = one.hear("clustersInfo")["clusters"]["all"]
    assert (facts["hosts"], facts["resources"]["core"], facts["consumables"]) == (12, 1, {})

    result = running.run("oarsub", "-l", "/core=2,walltime=1:0:0", "sleep 1")
    assert result.status == 0, result
    run_pass(connection)
    one.say("request", tag=0, hosts={"all": 13}, walltime=600)
    assert "13 cores" in one.hear("refused")["reason"]
    asking(connection, one, job, hosts={"all": 12})
    decide(connection)
    view = one.hear("changeNotify")
    now, duration, busy = view["changes"]["all"]
    assert busy == 2
    assert sorted(view["exact"]["all"]) == [[2, [[now + duration, None]]], [10, [[now, None]]]]
    assert one.hear("estimate")["start"] == now + duration

    cluster_links.set_link(connection, "all", "elsewhere", 0.01, 1e9)
    decide(connection)
    assert one.hear("changeNotify") == {"message": "changeNotify", "serial": 3, "changes": {}, "icinfo": ["all"]}
    connection.execute("UPDATE resources SET state = 'Suspected' WHERE network_address = 'n4'")
    decide(connection)
    assert one.hear("changeNotify")["cinfo"] == ["all"]
    again = launcher(running)
    again.say("attach", job=job, serial=2)
    assert again.hear("attached")["serial"] == 4
    told = again.hear("changeNotify")
    assert (told["cinfo"], told["icinfo"]) == (["all"], ["all"])


def test_quotas_are_a_cluster_of_their_own_and_rounded_down_to_hosts(
    running: GatewayProcess, connection: Connection
) -> None:
    connection.execute("INSERT INTO quotas (user_name, max_resources) VALUES ('/', 7)")
    one = launcher(running)
    one.say("subscribe")
    job = one.hear("subscribed")["job"]
    view = one.hear("changeNotify")["changes"]
    assert len(view["all"]) == 1
    assert view["*"][2:] == [2]  # two of three hosts, for ever: seven resources are one host of four
    asking(connection, one, job, hosts={"all": 2})
    decide(connection)
    told = one.hear("estimate")
    assert (told["start"], told["verdict"]) == (None, "quota")
