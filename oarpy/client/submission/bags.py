"""``oarsub --bag``: the checks of a bag, and the answer to it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from oarpy.client.pass_answers import place_to_wait, wait_for
from oarpy.client.submission.options import Options
from oarpy.client.submission.values import read_until
from oarpy.configuration import SchedulerSettings
from oarpy.model.errors import AdmissionRefused, Unreachable, UsageError
from oarpy.model.job_types import BAG, BESTEFFORT, read_types
from oarpy.model.submission import Submission
from oarpy.model.submission_checks import read_number
from oarpy.store.database import Connection
from oarpy.store.jobs import bag_profiles, bags

_ALONE = {
    "array_size": "--array",
    "throttle": "--throttle",
    "array_parameters": "--array-param-file",
    "reservation": "-r",
    "slack": "--slack",
    "fix": "--fix",
    "farthest": "--farthest",
}
_STAYS = "the bag stays: oarstat --bag tells, oardel --bag gives it up"


@dataclass(frozen=True, slots=True)
class BagAnswer:
    """The promised end of all tasks of a bag (epoch seconds), or the ``reason`` why the bag was refused.

    For a refused bag, ``promise`` is when it could be done, if ever; ``deadline`` is the requested deadline. A bag with
    a profile is ``expected`` to be done earlier; ``warnings`` say on which nodes it has none.
    """

    bag: int
    promise: float | None
    deadline: float | None
    reason: str = ""
    expected: float | None = None
    warnings: tuple[str, ...] = ()

    @property
    def meets(self) -> bool | None:
        """Whether the deadline is met; None without one."""
        return None if self.deadline is None else self.promise is not None and self.promise <= self.deadline


def as_bag(submission: Submission, options: Options, now: datetime, most: int) -> Submission:
    """Return the submission as a bag of at most ``most`` tasks. Raises :class:`UsageError`."""
    for name, word in _ALONE.items():
        if name in options.texts:
            raise UsageError(f"--bag with {word}", hint="a bag is N tasks that start when they can; leave one out")
    tasks = read_number("--bag", options.texts["bag"], 1, most)
    until = read_until(options.texts["until"], now, now) if "until" in options.texts else None
    types = (*submission.types, BAG)
    return submission.changed(bag=tasks, array_size=tasks, until=until, types=types)


def check_bag(submission: Submission, settings: SchedulerSettings) -> None:
    """Raise the error of a wrong bag, or of options for a bag without one."""
    if not submission.bag:
        if submission.strict:
            raise UsageError("--strict without --bag", hint="it is about the --until of a bag")
        if submission.profile:
            raise UsageError("--profile without --bag", hint="it prints the seconds of a task of a bag")
        if BAG in submission.types:
            raise UsageError(f"-t {BAG} without --bag", hint="oarsub --bag N")
        return
    if not settings.promises:
        raise AdmissionRefused("this cluster makes no promises (scheduler.promises)", hint="use --array")
    types = read_types(submission.types)
    faults = {
        "-I": submission.interactive,
        "several -l": len(submission.alternatives) > 1,
        "--hold": submission.hold,
        "-a": bool(submission.dependencies),
        "-t besteffort": BESTEFFORT in (*submission.types, submission.queue),
        "-t container": bool(types.containers),
        "-t inner": types.inside is not None,
        "a type that has a date": bool(types.dated),
    }
    for word, given in faults.items():
        if given:
            raise UsageError(f"--bag with {word}", hint="all tasks of a bag are alike, and start when they can")
    if submission.strict and submission.until is None:
        raise UsageError("--strict without --until", hint="--until END says by when the bag has to be done")
    if submission.until is not None:
        now = datetime.now().astimezone()
        walltime = submission.alternatives[0].walltime or 0 if submission.alternatives else 0
        if submission.until < now + timedelta(seconds=max(walltime, 1)):
            raise UsageError(
                f"the bag has to be done at {submission.until.astimezone():%Y-%m-%d %H:%M:%S}, before one task can be",
                hint="give a later --until or a shorter -l",
            )


def wait_for_promise(connection: Connection, bag: int, timeout: float) -> BagAnswer:
    """Return the answer to a bag.

    Raises :class:`Unreachable` when too many of the caller's commands wait, and after ``timeout`` seconds. The bag
    stays, and may be answered later.
    """
    with place_to_wait(_STAYS):
        row = wait_for(connection, lambda: bags.answer(connection, bag), timeout)
    profiles = bag_profiles.of_bag(connection, bag)
    if row is None:
        live = ", ".join(str(profile.job) for profile in profiles if profile.live)
        because = f": its profile is taken first, by {live}" if live else ""
        raise Unreachable(f"no server has answered bag {bag} within {timeout:g} s{because}", hint=_STAYS)
    warnings = tuple(
        f"Warning: tasks count with their walltime on nodes of type {profile.node_type}: {profile.why_none}"
        for profile in profiles
        if profile.seconds is None
    )
    return BagAnswer(bag, row.promise, row.deadline, row.reason, row.expected if profiles else None, warnings)
