"""When jobs would end on a cluster where best-effort jobs run, which give way to them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from oarpy.model.request import parse_request
from oarpy.scheduler.decide import decide
from oarpy.scheduler.forecast.completions import Completions
from oarpy.scheduler.resources.platform import Platform, Resource
from oarpy.scheduler.snapshot import Alternative, HoldingJob, Queue, QuotaRule, Snapshot, WaitingJob

PLATFORM = Platform.build(Resource(n + 1, properties={"network_address": n // 4, "core": n}) for n in range(16))
BESTEFFORT = HoldingJob(1, "bob", 0, 7, tuple(range(1, 17)), queue="besteffort")


def waiting(number: int, request: str, walltime: float) -> WaitingJob:
    return WaitingJob(number, "bob", alternatives=(Alternative(parse_request(request).groups, walltime),))


@pytest.mark.parametrize("quotas", [(), (QuotaRule(user="/", resources=9),)])
@pytest.mark.parametrize("before", [(), (waiting(2, "/core=1", 5),)])
def test_a_job_that_joins_begins_at_once_where_besteffort_jobs_give_way(
    before: tuple[WaitingJob, ...], quotas: tuple[QuotaRule, ...]
) -> None:
    queues = (Queue("default", 3), Queue("besteffort", 0))
    snapshot = Snapshot(now=0, platform=PLATFORM, queues=queues, holding=(BESTEFFORT,), waiting=before, quotas=quotas)
    joining = waiting(104, "/nodes=2", 39)
    with_it = replace(snapshot, waiting=(*before, joining))
    assert Completions(snapshot).ends([joining]) == [decide(with_it).plan.by_job()[104].end] == [39]
