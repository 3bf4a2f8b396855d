"""Programs whose processes are mapped over clusters: places, maps, shifts and remaps, as the core decides them."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from oarpy.grid.broker.coallocated.mapped_programs import transfers
from oarpy.grid.broker.decisions import DrivenCore, as_noted, taken_again
from oarpy.grid.core.broker_state import BrokerState, GridCluster
from oarpy.grid.core.coallocation.common_start import CommonPlace
from oarpy.grid.core.exchanges import Action
from oarpy.grid.core.mapped_programs import (
    AmendMapped,
    MappedPlace,
    MappedProgram,
    ProgramEndedEarly,
    ProgramSlotsTold,
    ReserveMapped,
    Told,
    TypeTold,
)
from oarpy.grid.core.metajobs import RefuseJob, Steps
from oarpy.processes.dealing import Share
from oarpy.processes.mapping import Program, synchronous

SLOW, FAST = {"a": 1.0, "b": 0.5}, {"a": 4.0, "b": 2.0}
STATE = BrokerState((GridCluster("north", 4, 1), GridCluster("south", 4, 1), GridCluster("west", 4, 1)))
JOB = MappedProgram(7, 8, 100, "sync", 4, 0.0, 10, "north", {})


def told(**clusters: dict[str, tuple[dict[str, float], Steps]]) -> Told:
    """Return answers of clusters: by type rates, and steps of free cores."""
    return {name: {kind: TypeTold(*its) for kind, its in types.items()} for name, types in clusters.items()}


def decided(event: ProgramSlotsTold | ProgramEndedEarly, now: float = 0) -> Action:
    """Return the action at an event, the same when it is taken again; without one, the refusal."""
    core = DrivenCore(STATE)
    actions = core.tell(event, now)
    taken = core.taken()
    assert taken_again(taken.state, taken.events) == [as_noted(actions) for actions in taken.actions]
    return actions[0] if actions else RefuseJob(JOB.id)


def placed(answers: Told, job: MappedProgram = JOB) -> MappedPlace:
    """Return the place of a program."""
    action = decided(ProgramSlotsTold(job, answers, 10))
    assert isinstance(action, ReserveMapped)
    return action.mapped


def test_the_walltime_follows_from_the_types_of_the_place() -> None:
    slow, fast = placed(told(north={"slow": (SLOW, [(0, 4)])})), placed(told(north={"fast": (FAST, [(0, 4)])}))
    # two stages of 200 s, of 50 s; a margin of 10 %
    assert (slow.seconds, slow.place) == (400, CommonPlace(10, 450, {"north": 4}))
    assert (fast.seconds, fast.place) == (100, CommonPlace(10, 120, {"north": 4}))
    assert fast.cores == {"north": {"fast": 4}}
    assert fast.assigned == {"north": {"fast": (Share("b", 4, 50, 2), Share("a", 4, 25, 2))}}


def test_cores_of_several_clusters_and_types_have_the_map_that_files_have() -> None:
    answers = told(
        north={"slow": (SLOW, [(0, 1)]), "fast": (FAST, [(0, 1)])},
        south={"slow": (SLOW, [(0, 4)])},
    )
    found = placed(answers, replace(JOB, transfer=0.8, at_most={"south": 2}))
    assert found.cores == {"north": {"fast": 1, "slow": 1}, "south": {"slow": 2}}
    names = {"north/fast": 1, "north/slow": 1, "south/slow": 2}
    rates = {"north/fast": FAST, "north/slow": SLOW, "south/slow": SLOW}
    expected = synchronous(names, rates, Program(JOB.processes, JOB.iterations, 0.8))
    assert found.seconds == expected.seconds
    for cluster, types in found.assigned.items():
        for kind, runs in types.items():
            counted: Counter[str] = Counter()
            for share in runs:
                counted[share.size] += share.processes
            assert counted == Counter(expected.assigned[f"{cluster}/{kind}"])


def test_a_transfer_counts_between_clusters_alone() -> None:
    both = told(north={"fast": (FAST, [(0, 2)])}, south={"fast": (FAST, [(0, 2)])})
    one = told(north={"fast": (FAST, [(0, 4)])})
    job = replace(JOB, transfer=5.0)
    assert (placed(both, job).seconds, placed(one, job).seconds) == (110, 100)


def test_links_that_are_known_count_instead_and_the_slowest_of_a_place() -> None:
    def over(*names: str) -> Told:
        free: Steps = [(0, 4 // len(names))]
        return told(**{name: {"fast": (FAST, free)} for name in names})

    links = transfers([("north", "south", 0.5, 1e6), ("north", "west", 9.0, 1e6)], 500_000)
    assert links == {"north": {"south": 1.0, "west": 9.5}}
    job = replace(JOB, transfer=5.0, links=links)
    # two stages of 50 s, each with a transfer; the link of south and west is not known
    assert placed(over("north", "south"), job).seconds == 102
    assert placed(over("north", "west"), job).seconds == 119
    assert placed(over("south", "west"), job).seconds == 110
    assert placed(over("north"), job).seconds == 100


def test_a_gap_for_fast_cores_alone_is_not_seen_from_the_walltime_of_slow_ones() -> None:
    # the fast cores are free for 200 s: enough for 110 s there, not for the 440 s of the slow type
    answers = told(north={"fast": (FAST, [(0, 4), (210, 0), (5000, 4)])}, south={"slow": (SLOW, [(0, 0), (1000, 4)])})
    found = placed(answers)
    assert found.cores == {"south": {"slow": 4}}
    alone = placed(told(north={"fast": (FAST, [(0, 4), (210, 0), (5000, 4)])}))
    assert alone.place == CommonPlace(10, 120, {"north": 4})


def test_walltimes_that_lead_to_each_other_end_with_the_longest() -> None:
    # with the short walltime the slow gap is first, for which it is too short; with the long one the fast cores are
    answers = told(north={"slow": (SLOW, [(0, 4), (150, 0), (90000, 4)])}, south={"fast": (FAST, [(0, 0), (200, 4)])})
    found = placed(answers)
    assert found.cores == {"south": {"fast": 4}}
    assert found.place == CommonPlace(200, 640, {"south": 4})


def test_who_is_over_too_late_or_has_no_room_is_refused() -> None:
    answers = told(north={"fast": (FAST, [(0, 4)])})
    assert isinstance(decided(ProgramSlotsTold(replace(JOB, end_by=119), answers, 10)), RefuseJob)
    assert placed(answers, replace(JOB, end_by=120)).place.end == 120
    assert isinstance(decided(ProgramSlotsTold(replace(JOB, procs=5), answers, 10)), RefuseJob)
    assert isinstance(decided(ProgramSlotsTold(JOB, {}, 10)), RefuseJob)


def test_a_plug_in_that_is_not_there_is_told_and_the_usual_model_maps() -> None:
    found = placed(told(north={"fast": (FAST, [(0, 4)])}), replace(JOB, model="none"))
    assert found.seconds == 100
    assert found.fault == "no plug-in 'none' is installed in oarpy.mappings (pip install its package)"


OLD = placed(told(north={"slow": (SLOW, [(0, 0), (1000, 2)])}, south={"slow": (SLOW, [(0, 0), (1000, 2)])}))


def early(operation: str, answers: Told, threshold: float = 60) -> Action:
    """Return the action after an early end on south."""
    assert operation in ("rigid", "shift", "remap")
    return decided(ProgramEndedEarly("south", JOB, OLD, operation, answers, 10, threshold))  # type: ignore[arg-type]


def test_a_shift_keeps_cores_and_map() -> None:
    answers = told(north={"slow": (SLOW, [(0, 2)])}, south={"fast": (FAST, [(0, 4)]), "slow": (SLOW, [(0, 2)])})
    action = early("shift", answers)
    assert isinstance(action, AmendMapped)
    assert action.mapped == replace(OLD, place=CommonPlace(10, 450, {"north": 2, "south": 2}))
    assert isinstance(early("rigid", answers), RefuseJob)
    assert isinstance(early("shift", told(north={}, south={"slow": (SLOW, [(0, 2)])})), RefuseJob)


def test_a_remap_makes_the_map_anew_and_is_taken_if_it_ends_earlier() -> None:
    answers = told(north={"slow": (SLOW, [(0, 0), (1000, 2)])}, south={"fast": (FAST, [(0, 4)])})
    action = early("remap", answers)
    assert isinstance(action, AmendMapped)
    assert action.mapped.place == CommonPlace(10, 120, {"south": 4})
    assert action.mapped.cores == {"south": {"fast": 4}}
    later = told(north={"slow": (SLOW, [(0, 1), (1000, 2)])}, south={"slow": (SLOW, [(0, 1), (1000, 2)])})
    assert isinstance(early("remap", later), RefuseJob)
    gained = OLD.place.end - action.mapped.place.end
    assert isinstance(early("remap", answers, gained), AmendMapped)
    assert isinstance(early("remap", answers, gained + 1), RefuseJob)


@pytest.mark.parametrize("operation", ["shift", "remap"])
def test_nothing_moves_while_no_core_is_free_where_the_job_ended(operation: str) -> None:
    answers = told(north={"slow": (SLOW, [(0, 2)])}, south={"slow": (SLOW, [(0, 0), (1, 4)])})
    assert isinstance(early(operation, answers), RefuseJob)
