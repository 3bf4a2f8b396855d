"""What the guide to jobs on several clusters shows is stored as it says."""

from __future__ import annotations

import pytest

from oarpy.store.grid import broker_jobs, clusters
from tests.harness.grid_job_cases import GridJobCase, accepted
from tests.harness.oarsub_cluster import Connection, Submitter

pytestmark = [pytest.mark.db, pytest.mark.kept]
CASES = accepted()


@pytest.mark.parametrize("case", CASES, ids=lambda case: " ".join(case.words))
def test_it_is_stored_as_the_guide_says(connection: Connection, oarsub: Submitter, case: GridJobCase) -> None:
    for place, name in enumerate(("north", "south")):
        clusters.put(connection, name, "oarpy", ["oargriddoor", "campus"], place=place)
    command, *words = case.words
    # no broker runs here, so clusters that are waited for do not answer
    result = oarsub("--answer-timeout", "0", *words, command=command)
    jobs = broker_jobs.of_everybody(connection)
    kind, processors, walltime = case.cells
    assert result.status == (6 if kind in ("named", "metajob", "bag") else 0), result
    assert {(job.kind, job.walltime) for job in jobs} == {(kind, float(walltime))}
    for components in broker_jobs.components(connection, [job.id for job in jobs]).values():
        assert " ".join(str(one.procs) for one in components) == processors


def test_every_kind_is_shown() -> None:
    assert {case.cells[0] for case in CASES} == {"mapped", "coallocated", "named", "metajob", "bag"}
