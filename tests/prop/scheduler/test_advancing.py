"""Groups of tasks move forward as their tasks do one by one, by the naive answer to ``advance``."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

from oarpy.profiles.profile import Profile
from oarpy.scheduler.bags.advancing import PlannedTasks, advance
from oarpy.scheduler.bags.tasks import Tasks, place
from tests.harness.examples import examples
from tests.prop.questions import naive_answers


def planned(dice: Random, procs: int, now: int) -> list[PlannedTasks]:
    """Place random jobs and bags one after the other; those that start before ``now`` have ended early."""
    profile, waiting = Profile(procs, 0), []
    for number in range(dice.randint(1, 6)):
        is_bag = dice.random() < 0.7
        tasks = Tasks(dice.randint(1, 9) if is_bag else 1, dice.choice((1, 1, 2, 3)), dice.randint(1, 9))
        groups, _ = place(profile, tasks, 0, listed=True)
        bag = number if is_bag else None
        waiting += [PlannedTasks(number, tasks.procs, start, tasks.time, bag, count) for start, count in groups]
    return [group for group in waiting if group.start >= now]


def one_by_one(groups: list[PlannedTasks]) -> list[dict[str, Any]]:
    """Return the tasks of groups as the question has them; a task's id is 100 times its job's, and its number."""
    tasks: list[dict[str, Any]] = []
    for group in groups:
        bag = None if group.bag is None else str(group.bag)
        entry = {"start": group.start, "time": group.time, "procs": group.procs, "bag": bag}
        tasks += [{"id": 100 * int(group.id) + len(tasks) + place, **entry} for place in range(group.count)]
    return tasks


def test_groups_move_forward_as_their_tasks_do_one_by_one() -> None:
    moved = 0
    for seed in range(examples(300)):
        dice = Random(seed)
        procs, now, coordinated = dice.randint(3, 6), dice.randint(1, 9), dice.random() < 0.7
        waiting = planned(dice, procs, now)
        completions: dict[int, float] = {}
        profile = Profile(procs, now)
        for group in waiting:
            profile.take(group.start, group.end, group.count * group.procs)
            if isinstance(group.bag, int):
                completions[group.bag] = max(completions.get(group.bag, 0), group.end)
        # other clusters may have tasks that end later
        completions = {bag: end + dice.choice((0, 0, 5)) for bag, end in completions.items()}

        tasks = one_by_one(waiting)
        bags = {str(bag): end for bag, end in completions.items()}
        question = {"ask": "advance", "procs": procs, "now": now, "bags": bags, "coordinated": coordinated}
        expected = naive_answers.answer({**question, "waiting": tasks})
        found = advance(profile, waiting, {}, completions, now, coordinated)

        starts = Counter((task["id"] // 100, expected["starts"][str(task["id"])]) for task in tasks)
        here: Counter[tuple[Any, float]] = Counter()
        for group in waiting:
            here[group.id, group.start] += group.count
        assert here == starts, seed
        assert {str(bag): end for bag, end in found.changed.items()} == expected["changed"], seed
        assert {str(bag): end for bag, end in found.new_completions.items()} == expected["new_completion_times"], seed
        moved += bool(found.changed)
    assert moved
