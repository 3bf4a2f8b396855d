"""When jobs would end, asked again when others have left or joined: as by a plan made from nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from msgspec import structs

from oarpy.model.dependency import Dependency
from oarpy.model.request import parse_request
from oarpy.scheduler.decide import decide
from oarpy.scheduler.forecast.completions import Completions
from oarpy.scheduler.resources.platform import Platform, Resource
from oarpy.scheduler.snapshot import Alternative, Snapshot, WaitingJob

PLATFORM = Platform.build(Resource(n + 1, properties={"network_address": n // 4, "core": n}) for n in range(16))


def asking(number: int, cores: int, walltime: float, inside: str = "", depends_on: int = 0) -> WaitingJob:
    return WaitingJob(
        number,
        "ann",
        alternatives=(Alternative(parse_request(f"/core={cores}").groups, walltime),),
        types=(inside,) if inside else (),
        depends_on=(Dependency(depends_on),) if depends_on else (),
    )


WHOLE = asking(2, 16, 5)
RESERVED = structs.replace(asking(1, 16, 10), reservation=0.0)
ELSEWHERE = structs.replace(asking(3, 1, 5), queue="nowhere")
INNER, CONTAINER, LATER = (
    asking(101, 4, 3, "inner=c"),
    asking(102, 4, 8, "container=c"),
    asking(110, 4, 3, "inner=c"),
)
Question = tuple[Sequence[int | WaitingJob], set[int], tuple[WaitingJob, ...]]


@pytest.mark.parametrize(
    ("there", "questions", "ends"),
    [
        ((RESERVED, WHOLE), [([2], set(), ()), ([2], {1}, ())], [[15], [5]]),
        ((WHOLE,), [([2], set(), (structs.replace(RESERVED, id=101),)), ([2], set(), ())], [[15], [5]]),
        ((WHOLE,), [([LATER], set(), (INNER,)), ([LATER], set(), (INNER, CONTAINER))], [[float("inf")], [11]]),
        (
            (WHOLE, ELSEWHERE),
            [
                ([asking(110, 16, 4)], set(), (asking(101, 16, 4, depends_on=3),)),
                ([asking(110, 16, 4)], {3}, (asking(101, 16, 4, depends_on=3),)),
            ],
            [[9], [13]],
        ),
        (
            (WHOLE, asking(3, 8, 9), asking(4, 16, 1)),
            [([4], set(), ()), ([4], {3}, ()), ([4], {2}, ())],
            [[15], [6], [10]],
        ),
    ],
    ids=["a reservation leaves", "one is taken back", "a container joins", "an anterior leaves", "jobs leave in turn"],
)
def test_what_was_planned_before_does_not_show(
    there: tuple[WaitingJob, ...], questions: list[Question], ends: list[list[float]]
) -> None:
    snapshot = Snapshot(now=0, platform=PLATFORM, waiting=there)
    completions = Completions(snapshot)
    for (asked, gone, joined), expected in zip(questions, ends, strict=True):
        left = tuple(job for job in there if job.id not in gone) + joined
        new = tuple(job for job in asked if isinstance(job, WaitingJob))
        planned = decide(replace(snapshot, waiting=(*left, *new))).plan.by_job()
        numbers = [job.id if isinstance(job, WaitingJob) else job for job in asked]
        anew = [float("inf") if (end := planned[number].end) is None else end for number in numbers]
        assert completions.ends(asked, gone, joined) == expected == anew
