"""What ``squeue`` prints, read as jobs and as marks of parts."""

from __future__ import annotations

from math import inf

from oarpy.grid.clusters.slurm.jobs import part_events, queue_plan, read_jobs
from oarpy.grid.clusters.slurm.marks import PartMark

MARK = PartMark("grid", "a:b|c", "queued", 60, "t 1", "t 1", "k%", "committed")


def printed(job: int, state: str, *, end: str = "N/A", reason: str = "None", comment: str = str(MARK)) -> str:
    """Return a record of a job of two processors that started at 1000."""
    return f"{job}|{state}|0|{reason}|990|1000|{end}|1-00:01:00|2|5|n[1-2]|{comment}|.\n"


def test_marks_are_read_as_they_were_written() -> None:
    assert PartMark.read(str(MARK)) == MARK
    assert "|" not in str(MARK)
    begun = PartMark.read(f"{MARK.so_far('begun')}1234:")
    assert begun is not None
    assert (begun.state, begun.at, begun.part) == ("begun", 1234, MARK.part)
    assert [PartMark.read(text) for text in ("", "oarpy", "mine", f"{MARK}:more")] == [None] * 4


def test_texts_of_slurm_and_of_others_may_have_several_lines() -> None:
    text = printed(7, "RUNNING", reason="first\nsecond") + printed(8, "RUNNING", comment="a|b\nc") + "9|cut off"
    first, second = read_jobs(text)
    assert (first.id, first.reason, first.mark, first.walltime) == (7, "first\nsecond", MARK, 86460)
    assert (first.end, first.hosts) == (inf, ("n1", "n2"))
    assert (second.id, second.mark) == (8, None)


def test_what_may_still_change_is_not_told() -> None:
    ended = read_jobs(printed(7, "COMPLETED", end="1010"))
    assert [event.kind for event in part_events(ended, 1011, 0)] == ["started"]
    told = part_events(ended, 1013, 0)
    assert [(event.kind, event.at, event.status) for event in told] == [("started", 1000, None), ("ended", 1010, 0)]
    ending = read_jobs(printed(6, "COMPLETING", end="1005"))
    assert [event.part for event in part_events([*ended, *ending], 1013, told[0].number)] == []


def test_after_a_number_that_is_to_come_all_is_told_again() -> None:
    ended = read_jobs(printed(7, "COMPLETED", end="1010"))
    told = part_events(ended, 1013, 0)
    assert part_events(ended, 1013, 2**62) == told
    assert part_events(ended, 1013, told[-1].number) == []


def test_a_queue_is_counted_in_the_order_of_priority() -> None:
    running, waiting = read_jobs(printed(7, "RUNNING", end="1100") + printed(8, "PENDING"))
    plan = queue_plan([waiting, running], 2, 1050)
    assert plan.starts == {8: 1100}
    assert plan.earliest(1, 10, 1050) == 1100 + 86460
