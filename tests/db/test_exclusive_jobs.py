"""Jobs of type exclusive, from oarsub to the resources that they hold."""

from __future__ import annotations

import pytest

from tests.harness.oarsub_cluster import Connection, Submitter, run_pass

pytestmark = [pytest.mark.db, pytest.mark.kept]


def nodes_of(connection: Connection, job: int) -> tuple[set[str], int]:
    """Return the nodes on which a job holds resources, and how many of their resources it does not hold."""
    rows = connection.execute(
        "SELECT network_address, EXISTS (SELECT FROM assigned_resources a"
        " WHERE a.resource_id = r.resource_id AND a.job_id = %(job)s) FROM resources r"
        " WHERE network_address IN (SELECT network_address FROM assigned_resources JOIN resources USING (resource_id)"
        " WHERE job_id = %(job)s)",
        {"job": job},
    ).fetchall()
    return {name for name, _ in rows}, sum(not held for _, held in rows)


def test_it_holds_all_of_its_nodes_and_nobody_comes_beside_it(connection: Connection, oarsub: Submitter) -> None:
    alone = oarsub.job_id("-t", "exclusive", "-l", "/core=1,walltime=1:0:0", "date")
    others = [oarsub.job_id("-l", "/core=1,walltime=0:10:0", "date") for _ in range(2)]
    run_pass(connection)
    (name,), left = nodes_of(connection, alone)
    assert left == 0
    for other in others:
        run_pass(connection)
        assert name not in nodes_of(connection, other)[0]


def test_what_it_takes_is_told_and_checked_in_whole_nodes(connection: Connection, oarsub: Submitter) -> None:
    (cores,) = connection.execute(
        "SELECT count(*) FROM resources WHERE type = 'default' GROUP BY network_address ORDER BY 1 LIMIT 1"
    ).fetchone() or (0,)
    job = oarsub.job_id("-t", "exclusive", "-l", "/nodes=1/core=1,walltime=1:0:0", "date")
    (message,) = connection.execute("SELECT message FROM jobs WHERE job_id = %s", [job]).fetchone() or ("",)
    assert message.startswith(f"R={cores},")
    refused = oarsub("-t", "exclusive", "-l", "/nodes=99/core=1,walltime=1:0:0", "date")
    assert (refused.status, refused.err.count("\n")) == (3, 1)
    assert "the request can never run: needs 99 nodes" in refused.err


@pytest.mark.parametrize("kind", ["container", "timesharing=user,*", "placeholder=lab"])
def test_it_shares_with_nobody(oarsub: Submitter, kind: str) -> None:
    refused = oarsub("-t", "exclusive", "-t", kind, "-l", "/nodes=1,walltime=1:0:0", "date")
    name = kind.partition("=")[0]
    assert (refused.status, refused.err) == (
        3,
        f"oarsub: a job of type exclusive has its nodes to itself, leave {name} out (admission rule known_types)\n",
    )
