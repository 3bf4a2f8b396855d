"""Requests whose amount depends on the date: a quota forbids every date that is passed over."""

from __future__ import annotations

from math import inf

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oarpy.model.request import parse_request
from oarpy.scheduler.gantt.demands import CompiledAlternative
from oarpy.scheduler.gantt.gantt import Claim, Gantt
from oarpy.scheduler.gantt.search import Leaps
from oarpy.scheduler.job_roles import roles_of
from oarpy.scheduler.resources.matching import Matchers, RequestMatcher
from oarpy.scheduler.resources.platform import Platform, Resource
from oarpy.scheduler.snapshot import HoldingJob, QuotaRule, Snapshot, WaitingJob
from tests.harness.examples import examples

CORES = 16
EVEN = Platform.build(
    Resource(n + 1, properties={"network_address": f"n{n // 4}", "switch": f"s{n // 8}", "core": n})
    for n in range(CORES)
)
UNEVEN = Platform.build(
    Resource(n + 1, properties={"network_address": f"n{int(n**0.7)}", "switch": f"s{n % 3}", "core": n})
    for n in range(CORES)
)
GROWING = [
    "/core=BEST",
    "/core=BESTHALF",
    "/core=ALL",
    "/nodes=BEST",
    "/nodes=ALL",
    "/nodes=BEST/core=2",
    "/nodes=BEST/core=BEST",
    "/nodes=BEST/core=BESTHALF",
    "/nodes=ALL/core=BEST",
    "/switch=BEST/nodes=BEST/core=BEST",
    "/switch=BEST/nodes=2/core=1",
    "/nodes=BESTHALF/core=1",
]
OTHERS = [
    "/nodes=1/core=BEST",
    "/nodes=2/core=BEST",
    "/nodes=BESTHALF/core=BEST",
    "/switch=1/nodes=BEST",
    "/core=2+/nodes=BEST",
]
KNOWN = {platform: Matchers(platform) for platform in (EVEN, UNEVEN)}
platforms = st.sampled_from([EVEN, UNEVEN])
cores = st.sets(st.integers(0, CORES - 1))
held = st.lists(
    st.builds(
        HoldingJob,
        st.just(1),
        st.sampled_from(["ann", "bob", "bob"]),
        st.integers(0, 150),
        st.integers(1, 60),
        bits=cores.map(lambda places: sum(1 << place for place in places)),
    ),
    min_size=5,
    max_size=25,
)
rules = st.lists(
    st.builds(
        QuotaRule,
        user=st.sampled_from(["*", "/", "ann"]),
        resources=st.sampled_from([-1, 1, 2, 3, 5, 8, 12]),
        jobs=st.sampled_from([-1, -1, 3]),
        resource_hours=st.sampled_from([-1, -1, 0.03, 0.1]),
        valid=st.sampled_from([None, None, ((0, 50),), ((30, 90), (120, 400))]),
    ),
    min_size=1,
    max_size=3,
)


def _matcher(platform: Platform, text: str) -> RequestMatcher:
    request = parse_request(text)
    return KNOWN[platform].request(request.groups, [platform.everything] * len(request.groups))


@given(platforms, st.sampled_from(GROWING), cores, cores)
def test_more_free_resources_never_make_a_growing_request_take_fewer(
    platform: Platform, text: str, some: set[int], more: set[int]
) -> None:
    matcher = _matcher(platform, text)
    few, many = (matcher.match(sum(1 << place for place in places)).bit_count() for places in (some, some | more))
    assert few <= many or not matcher.grows


@pytest.mark.parametrize("text", GROWING)
def test_requests_for_all_that_is_free_grow(text: str) -> None:
    assert _matcher(EVEN, text).grows


@pytest.mark.parametrize("text", OTHERS)
def test_requests_for_some_of_unequal_blocks_do_not_grow(text: str) -> None:
    assert not _matcher(EVEN, text).grows


@given(
    platforms, st.sampled_from(GROWING) | st.sampled_from(OTHERS), st.integers(1, 40), held, rules, st.integers(0, 2)
)
@settings(max_examples=examples(300), deadline=None)
def test_a_quota_forbids_every_date_passed_over(
    platform: Platform, text: str, walltime: int, jobs: list[HoldingJob], quotas: list[QuotaRule], security: int
) -> None:
    """Every date at which something changes is passed over with reason, whatever was tried before."""
    gantt = Gantt(Snapshot(now=0, platform=platform, quotas=tuple(quotas), security_time=security))
    gantt.hold(jobs)
    job = WaitingJob(100, "ann")
    roles, matcher = roles_of(job), _matcher(platform, text)
    limits, option, hold = gantt.limits(job, roles), CompiledAlternative(0, walltime, matcher), walltime + security
    if limits is None or matcher.fixed:
        return
    line = gantt.whole.exclusive

    def forbidden(date: float) -> bool:
        taken = matcher.match(matcher.usable & line.common(date, date + hold))
        amount = gantt.amount(job, roles, Claim(date, walltime, taken))
        return not taken or gantt.ledger.excess(limits, date, date + hold, amount) is not None

    edges = [edge for limit in limits for edge in (limit.begin, limit.end)]
    dates = sorted({date for date in [*line.begins, *edges] if 0 <= date < inf})
    leaps, date = Leaps(gantt, (line,), limits, option, hold), 0.0
    while date < inf:
        until = leaps.after(date) if forbidden(date) else min((one for one in dates if one > date), default=inf)
        assert until > date
        assert all(map(forbidden, [one for one in dates if date < one < until]))
        date = until
