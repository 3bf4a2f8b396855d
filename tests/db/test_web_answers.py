"""Every operation of REST answers what ``/openapi.json`` says, for rows of each kind, and no key more."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from oarpy import configuration
from oarpy.client.platform.tokens import Scope
from oarpy.store.jobs import extensions
from oarpy.store.platform import maintenance
from tests.harness.hand_written import rewrite
from tests.harness.jobs_of_each_kind import jobs_of_each_kind
from tests.harness.small_cluster import Connection, SmallCluster, with_settings
from tests.harness.web_client import ME, CheckingClient, described, token, web_client, web_settings

pytestmark = pytest.mark.db

ROOT = Path(__file__).parents[2]

QUESTIONS = ("", "/why", "/priority", "/walltime", "/output", "?environment=true")
"""What is asked of each job below ``/api/v1/jobs``."""
OAR_QUESTIONS = ("", "/details", "/resources", "/nodes")
"""What is asked of each job below ``/oarapi/jobs``."""


@pytest.fixture
def cluster(connection: Connection) -> SmallCluster:
    """Jobs of each kind, and rows that few of them have."""
    jobs = jobs_of_each_kind(connection)
    made = SmallCluster(connection, with_settings())
    made.add_consumable("memory", unit="bytes", n1=1 << 34)
    growing = extensions.ask(connection, jobs.runs, "firm", "more", {"": 1})
    made.sql("UPDATE extensions SET told = '{\"start\": 1800000000}' WHERE extension_id = %s", growing)
    date = (made.now() + timedelta(hours=5)).replace(microsecond=0)
    for until in (date + timedelta(hours=9), None, None):
        made.submit("/nodes=3,walltime=1:0:0", reservation=date, until=until)
        made.settle()
    made.sql("INSERT INTO quotas (user_name, max_resources) VALUES ('/', 5)")
    made.add_nodes("n4")
    made.sql("UPDATE resources SET state = 'Dead' WHERE network_address = 'n4'")
    made.sql("UPDATE nodes SET away_reason = 'a fan', away_by = 'ann', away_since = now() WHERE network_address = 'n4'")
    requests = ("/core=3", "/nodes=3", "{network_address = 'n1'}/core=1", "{network_address = 'n4'}/core=1", "/nodes=9")
    for request in requests:
        made.submit(request, name="one")
    made.sql("UPDATE jobs SET state = 'Hold' WHERE job_id = %s", made.submit("/core=1"))
    used = "UPDATE jobs SET cpu_seconds = 1.5, memory_peak = 1::bigint << 40, resubmit_of = %s WHERE job_id = %s"
    rewrite(connection, used, jobs.deleted, jobs.failed)
    made.submit("/core=1", types=("besteffort",), queue="besteffort", user="bob")
    waiting = made.submit("/nodes=1", user="bob")
    made.plan()
    made.sql(
        "INSERT INTO first_predictions (job_id, made_at, planned_start, earliest_start, latest_start, learnt_from)"
        " VALUES (%s, now(), now(), now(), now() + interval '1 hour', 50)",
        waiting,
    )
    made.submit_array(2, "/core=1,walltime=0:9:0", bag=2, types=("bag",))
    made.settle()
    maintenance.plan(connection, ["n3"], (date, date + timedelta(hours=1)), "a fan", "ann")
    made.sql("UPDATE nodes SET load_average = 1, available_memory = 2, uptime = 3, load_at = now() WHERE host IS NULL")
    made.sql("UPDATE nodes SET away_reason = '', away_by = 'ann', away_since = now() WHERE network_address = 'n2'")
    return made


@pytest.fixture
def client(dsn: str, cluster: SmallCluster) -> Iterator[CheckingClient]:
    """An admin, where users may do much."""
    settings = replace(
        web_settings(dsn),
        walltime=configuration.Walltime(enabled=True),
        jobs=replace(configuration.JobSettings(), users_may_suspend=True),
    )
    with web_client(settings) as opened:
        opened.headers.update(token(cluster.connection, ME, Scope.ADMIN))
        yield opened


def test_every_operation_says_what_it_answers() -> None:
    for method, path in described().operations():
        responses = described().responses(method, path)
        assert set(responses) in ({"200", "default"}, {"201", "default"}), (method, path)
        for status, response in responses.items():
            for content in response["content"].values():
                assert content["schema"] not in ({}, {"type": "object"}, {"type": "array"}), (method, path, status)


def test_the_guide_names_every_path() -> None:
    guide = (ROOT / "docs" / "guides" / "rest.md").read_text("utf-8")
    for _, path in described().operations():
        named = [word for word in path.split("/") if word and not word.startswith("{")]
        assert path == "/metrics" or named[-1] in guide, path


def test_a_key_that_is_not_described_is_found() -> None:
    answer = {"user": "ann", "admin": False, "scope": "read", "source": "token"}
    assert described().problems("get", "/api/v1/whoami", "200", answer) == []
    assert described().problems("get", "/api/v1/whoami", "200", {**answer, "shoe_size": 43})
    assert described().problems("get", "/api/v1/whoami", "default", answer)
    del answer["user"]
    assert described().problems("get", "/api/v1/whoami", "200", answer)


def test_every_operation_is_answered_as_described(client: CheckingClient, cluster: SmallCluster) -> None:
    ask_of_jobs(client, [job for (job,) in cluster.sql("SELECT job_id FROM jobs ORDER BY job_id")])
    ask_of_the_platform(client)
    submit_and_act(client, cluster)
    administer(client)
    for path in ("version", "whoami", "health", "events?once=true&since=now", "gantt?since=-1d&until=%2B1d"):
        client.get(f"/api/v1/{path}")
    for path in ("version", "whoami", "timezone"):
        client.get(f"/oarapi/{path}")
    client.get("/metrics")
    client.get("/api/v1/audit?limit=3")
    client.get("/api/v1/accounting?since=-7d")
    client.get("/api/v1/tokens?everybody=true")
    client.delete("/api/v1/tokens/1")
    assert set(described().operations()) - client.answered == set()


def ask_of_jobs(client: CheckingClient, jobs: list[int]) -> None:
    """Ask all there is to know of each job and of all."""
    for job in (*jobs, 999_999):
        for question in QUESTIONS:
            client.get(f"/api/v1/jobs/{job}{question}")
        client.get(f"/api/v1/bags/{job}")
        for question in OAR_QUESTIONS:
            client.get(f"/oarapi/jobs/{job}{question}")
    client.get("/api/v1/jobs?ended=true&limit=5")
    client.get("/api/v1/jobs?ended=true&limit=500")
    for path in ("jobs", "jobs/details"):
        client.get(f"/oarapi/{path}?state={','.join(('Waiting', 'Running', 'Terminated', 'Error'))}&limit=3&offset=1")


def ask_of_the_platform(client: CheckingClient) -> None:
    """Ask of resources, nodes, queues and quotas."""
    for path in ("resources?limit=2", "nodes", "nodes/n1", "nodes/n2", "nodes/n3", "nodes/n9", "nodes/n1/events"):
        client.get(f"/api/v1/{path}")
    for path in ("maintenance", "queues", "quotas"):
        client.get(f"/api/v1/{path}")
    for path in ("", "/full", "/details", "/nodes/n1", "/1", "/1/jobs", "/2/jobs", "/99999"):
        client.get(f"/oarapi/resources{path}")


def submit_and_act(client: CheckingClient, cluster: SmallCluster) -> None:
    """Submit jobs of each kind; do all that can be done to them."""
    with tempfile.TemporaryDirectory(prefix="oarpy-answers-") as folder:
        wish = {"command": "sleep 9", "directory": folder, "stdout": "out", "alternatives": ["/core=1,walltime=1"]}
        Path(folder, "out").write_text("the end\n", "utf-8")

        def submit(**more: Any) -> int:
            return int(client.post("/api/v1/jobs", json={**wish, **more}).json().get("job_id", 0))

        job = submit(trace=True)
        submit(array_parameters=["1", "2"])
        submit(alternatives=["/nodes=4000"])
        date = cluster.now() + timedelta(hours=1)
        for more in ({}, {"reservation": f"{date:%Y-%m-%d %H:%M:%S}"}, {"alternatives": ["/nodes=4000"]}):
            submit(**more, dry_run=True)
        client.get(f"/api/v1/jobs/{job}/output")
        for body in ({"name": "x"}, {"alternatives": ["/core=2"], "dry_run": True}, {"alternatives": ["/nodes=4000"]}):
            client.patch(f"/api/v1/jobs/{job}", json=body)
        for action in ("hold", "resume", "checkpoint", "signal", "walltime"):
            client.post(f"/api/v1/jobs/{job}/{action}", json={"signal": "USR1", "walltime": "+0:10:0"})
        cluster.sql("UPDATE quotas SET max_resources = -1")
        cluster.sql("DELETE FROM extensions")
        cluster.settle()
        for (runs,) in cluster.sql("SELECT job_id FROM jobs WHERE state = 'Running'"):
            for action in ("checkpoint", "signal", "walltime"):
                client.post(f"/api/v1/jobs/{runs}/{action}", json={"signal": "USR1", "walltime": "+0:10:0"})
            client.get(f"/api/v1/jobs/{runs}/walltime")
            for action in ("checkpoints/new", "signals/USR1", "rholds/new", "resumptions/new"):
                client.post(f"/oarapi/jobs/{runs}/{action}")
        other = client.post("/oarapi/jobs", json={"resource": "/core=1", "command": "date", "workdir": "/"}).json()[
            "id"
        ]
        for action in ("holds/new", "resumptions/new", "deletions/new"):
            client.post(f"/oarapi/jobs/{other}/{action}")
        client.delete(f"/oarapi/jobs/{submit()}")
        client.delete(f"/api/v1/jobs/{job}")


def administer(client: CheckingClient) -> None:
    """Do what admins do."""
    client.post("/api/v1/nodes/settings", json={"hosts": ["n1"], "drain": True, "reason": "a fan"})
    window = {"hosts": ["n1"], "maintenance": "now..+2h"}
    number = client.post("/api/v1/nodes/settings", json=window).json()["window"]
    client.get("/api/v1/nodes/n1")
    client.get("/api/v1/nodes/n1/events")
    client.delete(f"/api/v1/maintenance/{number}")
    client.patch("/api/v1/queues/default", json={"active": False})
    rule = {"text": "def check(job, site):\n    job.name = 'x'\n"}
    client.put("/api/v1/rules/mine", json=rule)
    client.patch("/api/v1/rules/mine", json={"enabled": False})
    client.post("/api/v1/rules/mine/trial", json=rule)
    for path in ("", "/mine", "/mine/versions"):
        client.get(f"/api/v1/rules{path}")
    client.delete("/api/v1/rules/mine")
    client.post("/api/v1/projects", json={"project": "physics", "hours": 10, "period": "month"})
    client.post("/api/v1/projects", json={"project": "fire", "parent": "physics", "until": "2031-05-01"})
    client.patch("/api/v1/projects/fire", json={"share": 2, "hours": None})
    client.put("/api/v1/projects/fire/members/ann", json={"role": "coordinator"})
    for path in ("", "/physics", "/fire", "/snow"):
        client.get(f"/api/v1/projects{path}")
    client.delete("/api/v1/projects/fire/members/ann")
    client.delete("/api/v1/projects/fire")
