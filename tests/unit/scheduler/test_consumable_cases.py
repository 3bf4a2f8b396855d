"""Consumables: amounts of what hosts have, asked for beside resources."""

from __future__ import annotations

from msgspec import structs

from oarpy.model.request import Consumption
from oarpy.scheduler.resources.consumables import Consumable
from tests.harness.scheduling_cases import cluster, job, placed, planned, running, starts, verdicts

TWO_HOSTS = cluster("n1:2 n2:2")
MEMORY = (Consumable("memory", "network_address", {"n1": 8, "n2": 4}),)


def test_who_asks_for_nothing_takes_nothing() -> None:
    jobs = [job(1, "/nodes=1/core=1,memory=8", 50), job(2, "/core=3", 50), job(3, "/core=1,memory=1", 10)]
    assert starts(TWO_HOSTS, *jobs, consumables=MEMORY) == {1: 0, 2: 0, 3: 50}


def test_each_host_of_a_job_gives_the_amount() -> None:
    found = placed(
        TWO_HOSTS, job(1, "/nodes=2/core=1,memory=4", 10), job(2, "/core=1,memory=4", 10), consumables=MEMORY
    )
    assert found[1].resources == [1, 3]
    assert (found[2].start, found[2].resources) == (0, [2])


def test_hosts_without_enough_are_not_looked_at() -> None:
    found = placed(TWO_HOSTS, running(9, "1-2", 0, 30), job(1, "/nodes=1,memory=6", 10), consumables=MEMORY)
    assert (found[1].start, found[1].resources) == (30, [1, 2])


def test_memory_is_held_with_the_security_time() -> None:
    jobs = [job(1, "/core=1,memory=8", 10), job(2, "/core=1,memory=8", 10)]
    assert starts(TWO_HOSTS, *jobs, consumables=MEMORY, security_time=5) == {1: 0, 2: 15}


def test_running_jobs_take_memory() -> None:
    holder = running(9, "1", 0, 30, consumes=(Consumption("memory", 8),))
    made = placed(TWO_HOSTS, holder, job(1, "/core=1,memory=5", 10), consumables=MEMORY)
    assert made[1].start == 30
    assert str(made[1].reason) == "memory: 5 asked on each network_address, 0 left on n1 until 30"


def test_too_much_is_never_served() -> None:
    made = placed(TWO_HOSTS, job(1, "/core=1,memory=9", 10), job(2, "/core=1,disk=1", 10), consumables=MEMORY)
    assert (made[1].verdict, str(made[1].reason)) == (
        "never",
        "memory=9 is more than any network_address has (the largest has 8)",
    )
    assert (made[2].verdict, str(made[2].reason)) == ("never", "'disk' is not a consumable of this platform")


def test_a_moldable_job_takes_the_alternative_that_fits() -> None:
    holder = running(9, "1", 0, 100, consumes=(Consumption("memory", 6),))
    made = placed(TWO_HOSTS, holder, job(1, "/core=1,memory=6", 10, "/core=2,memory=2", 20), consumables=MEMORY)
    assert (made[1].alternative, made[1].start) == (1, 0)


def test_best_effort_jobs_are_cancelled_for_memory_the_youngest_first() -> None:
    old = running(8, "2", -20, 100, "besteffort", consumes=(Consumption("memory", 4),))
    young = running(9, "3", -10, 100, "besteffort", consumes=(Consumption("memory", 4),))
    elsewhere = running(7, "4", -5, 100, "besteffort", consumes=(Consumption("memory", 4),))
    three = cluster("n1:3 n2:2")
    made = planned(
        three, old, young, elsewhere, running(6, "5", 0, 100), job(1, "/core=1,memory=4", 10), consumables=MEMORY
    )
    assert made.kill == (9,)
    assert made.by_job()[1].verdict == "resources_busy"


def test_reservations_find_their_memory() -> None:
    jobs = [
        job(1, "/core=1,memory=8", 20, reservation=10),
        job(2, "/core=1,memory=8", 10),
        job(3, "/core=1,memory=8", 11),
    ]
    assert starts(TWO_HOSTS, *jobs, consumables=MEMORY) == {1: 10, 2: 0, 3: 30}
    assert verdicts(TWO_HOSTS, *jobs, consumables=MEMORY)[1] == "reserved"


def test_a_suspended_best_effort_job_goes_when_its_amount_is_needed() -> None:
    """What it has in memory is still there: only its end gives that back."""
    asleep = running(9, "1", 0, 100, types="besteffort", user="guest", consumes=(Consumption("memory", 8),))
    asleep = structs.replace(asleep, resources=(), given_back=TWO_HOSTS.bits_of((1,)))
    made = planned(TWO_HOSTS, asleep, job(1, "/core=1,memory=6", 10), job(2, "/core=1", 10), consumables=MEMORY)
    assert made.kill == (9,)
    assert {one.job: one.verdict for one in made.placements} == {1: "resources_busy", 2: "starts"}
