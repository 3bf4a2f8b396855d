"""Each command does what it is for once, so that its statements are seen by every PostgreSQL that is supported."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from oarpy.store.schema import migrations
from tests.harness.oarsub_cluster import Connection, Submitter, run_pass
from tests.harness.sample_cluster import add_job
from tests.packaging.installation import installed_commands

pytestmark = [pytest.mark.db, pytest.mark.oldest]

RUNNING, WAITING = 1, 2
ON_A_NODE = {"oarcp", "oarsh", "oarconnect", "oarsrun", "oarprint"}
"""Commands that need a node, or nothing but a job's files."""
USES = [
    ("oarsub", "-l", "/nodes=1,walltime=0:10:0", "-p", "mem > 1", "date"),
    ("oarsub", "--dry-run", "-l", "/nodes=1", "date"),
    ("oarstat",),
    ("oarstat", "-f", "-J"),
    ("oarstat", "--efficiency"),
    ("oarstat", "--efficiency", "--by", "day", "-J"),
    ("oarstat", "--why", str(WAITING)),
    ("oarstat", "--why", str(WAITING), "--at", "now"),
    ("oarstat", "--why", str(WAITING), "--before", str(RUNNING)),
    ("oarstat", "--at", "now"),
    ("oarstat", "--at", "now", "--gantt", "-1h, +1h"),
    ("oarnodes", "--at", "now"),
    ("oarstat", "--gantt", "2026-01-01 00:00:00, 2026-01-02 00:00:00"),
    ("oarwalltime", str(RUNNING)),
    ("oarresize", "--help"),
    ("oarwindow", "--help"),
    ("oaralter", str(WAITING), "-l", "/nodes=1", "--nice", "3"),
    ("oarhold", str(WAITING)),
    ("oarresume", str(WAITING)),
    ("oardel", str(RUNNING)),
    ("oarnodes",),
    ("oarnodesetting", "-r", "5", "-p", "mem=3"),
    ("oarproperty", "-a", "disk"),
    ("oarqueue",),
    ("oarqueue", "--add", "night,3,fifo"),
    ("oarproject", "list"),
    ("oarrates",),
    ("oaraccounting",),
    ("oaradmin", "resources", "add", "/host=z[1-2]/core={2}"),
    ("oaradmin", "resources", "list", "-J"),
    ("oaradmissionrules", "list"),
    ("oartoken", "new", "--expires", "30d", "--scope", "read"),
    ("oartoken", "list"),
    ("oarnegotiate", "--help"),
    ("oargriddoor", "--help"),
    ("oargridsh", "--help"),
    ("oargridsub", "--help"),
    ("oargridstat",),
    ("oargridstat", "--all", "--moves"),
    ("oargriddel", "--help"),
    ("oargridctl", "clusters", "add", "a", "--door", "oargriddoor campus"),
    ("oargridctl", "clusters", "list"),
    ("oargridctl", "passes", "list"),
    ("oargridctl", "doubts"),
    ("oargridctl", "strays", "--help"),
    ("oargridctl", "grants"),
    ("oaradmin", "links", "set", "all#1", "all#2", "--latency", "0.001", "--bandwidth", "1e9"),
    ("oaradmin", "links", "list"),
    ("oarpy", "db", "query", "SELECT count(*) FROM jobs"),
    ("oarpy", "db", "downgrade", migrations.head()),
    ("oarpy", "db", "analyst", "smoke_analyst"),
    ("oarpy", "report", "2026-03", "-J"),
    ("oarpy", "grid", "replay"),
    ("oarpy", "export", "exported"),
    ("oarpy", "metrics"),
    ("oarpy", "doctor", "-J"),
    ("oaradmin", "policy", "try", "--days", "1", "--policy", "easy"),
    ("oarpy", "history", "list"),
    ("oarpy", "history", "move"),
    ("oarpy", "events", "--once"),
    ("oarpy", "run", "metascheduler", "--once"),
]


@pytest.mark.parametrize("words", USES, ids=" ".join)
def test_it_works(connection: Connection, oarsub: Submitter, words: tuple[str, ...]) -> None:
    oarsub.job_id("-l", "/nodes=1,walltime=1:0:0", "date")
    run_pass(connection)
    oarsub.job_id("-l", "/nodes=3,walltime=1:0:0", "date")
    run_pass(connection)
    command, *arguments = words
    if words == ("oarresume", str(WAITING)):
        assert oarsub(str(WAITING), command="oarhold").status == 0
    if words[:3] == ("oaradmin", "policy", "try"):
        hour_ago = datetime.now(UTC) - timedelta(hours=1)
        add_job(connection, "Terminated", resources=[5], started=hour_ago, submitted_at=hour_ago)
    result = oarsub(*arguments, command=command)
    # no server runs here, which the doctor has to say
    assert (result.status, result.err) == (1 if "doctor" in words else 0, ""), result


def test_no_command_is_forgotten() -> None:
    assert {words[0] for words in USES} | ON_A_NODE == installed_commands()
