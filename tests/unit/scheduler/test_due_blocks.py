"""A reservation whose date has come waits for the block of an exclusive level that another job still holds."""

from __future__ import annotations

from oarpy.model.request import parse_request
from oarpy.scheduler.resources.platform import Platform, Resource
from oarpy.scheduler.rules.reservations import due_reservations
from oarpy.scheduler.snapshot import Alternative, HoldingJob, Reservation, Snapshot, WaitingJob


def test_a_reservation_waits_for_the_gpu_whose_other_core_is_held() -> None:
    rows = [Resource(number, properties={"core": number, "gpu": 1, "network_address": "n1"}) for number in (1, 2)]
    platform = Platform.build(rows, hierarchy=["gpu", "core"])
    job = WaitingJob(7, "ann", alternatives=(Alternative(parse_request("/gpu=1/core=1").groups, 60),), reservation=100)
    running = HoldingJob(1, "bob", 0, 200, (1,), levels=("gpu",))
    for levels, starts in (((), [7]), (("gpu",), [])):
        snapshot = Snapshot(
            100,
            platform,
            holding=(running,),
            reservations=(Reservation(job, 100, 60, (2,)),),
            exclusive_levels=levels,
        )
        assert [start.job for start in due_reservations(snapshot, ()).starts] == starts
