"""An extension begins at the first instant from which its hosts are free until its job ends."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from oarpy.scheduler.decide import decide
from oarpy.scheduler.snapshot import JobPart, PartId, Snapshot
from tests.harness.scheduling_cases import cluster, job, running

HOSTS = 5
PLATFORM = cluster(" ".join(f"n{number}:1" for number in range(1, HOSTS + 1)))

others = st.lists(
    st.tuples(st.integers(2, HOSTS), st.integers(1, 60)), max_size=HOSTS - 1, unique_by=lambda one: one[0]
)


@given(others, st.integers(1, HOSTS), st.integers(10, 50), st.integers(0, 3))
def test_the_first_instant_from_which_enough_is_free_to_the_end(
    others: list[tuple[int, int]], hosts: int, until: int, security: int
) -> None:
    holding = [running(number, str(number), 0, end) for number, end in others]
    asked = structs.replace(
        job(PartId.of_extension(1), f"/network_address={hosts}", until), ranked=0.0, part=JobPart(1, until)
    )
    snapshot = Snapshot(
        0, PLATFORM, parts=(asked,), holding=(running(1, "1", 0, until), *holding), security_time=security
    )
    decided = decide(snapshot)
    free_from = dict.fromkeys(range(2, HOSTS + 1), 0)
    free_from.update((number, end + security) for number, end in others)
    instants = sorted({0, *free_from.values()})
    fits = [at for at in instants if at < until and sum(since <= at for since in free_from.values()) >= hosts]
    (place,) = decided.plan.placements
    assert place.start == (fits[0] if fits else None)
    if fits:
        assert place.end == until
        assert len(place.resources) == hosts
        assert all(number != 1 and free_from[number] <= fits[0] for number in place.resources)
    assert len(decided.grown) == (1 if fits[:1] == [0] else 0)
