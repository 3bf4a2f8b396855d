"""What a scenario file may hold: a struct for each of its objects. A key with a default may be left out.

Times are seconds. What kinds cannot say is checked by :mod:`oarpy.simulation.scenario_reader`.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from oarpy.model.planning_policy import PolicyName

LARGEST: Final = 2**53
"""Largest number accepted, in either direction: whole numbers stay exact up to here."""

Whole = Annotated[int, Meta(ge=-LARGEST, le=LARGEST)]
Number = Whole | Annotated[float, Meta(ge=-LARGEST, le=LARGEST)]
Word = Annotated[str, Meta(min_length=1)]


class ResourceEntry(Struct):
    """A resource; its other keys are properties."""

    id: Whole
    type: str = "default"
    state: Literal["Alive", "Absent", "Suspected", "Dead"] = "Alive"


class QueueEntry(Struct, forbid_unknown_fields=True):
    """A queue; ``policy`` is one of the orders."""

    name: str
    priority: Number
    policy: str = "fifo"


class QuotaEntry(Struct, forbid_unknown_fields=True):
    """A quota rule: patterns, and limits of which -1 is none."""

    queue: str = "*"
    project: str = "*"
    type: str = "*"
    user: str = "*"
    resources: Number = -1
    jobs: Number = -1
    resource_hours: Number = -1


class ConsumableEntry(Struct, forbid_unknown_fields=True):
    """A consumable; ``capacity`` maps the blocks of ``level`` to amounts."""

    name: str
    capacity: dict[str, Any]
    level: str = "network_address"


class RunningEntry(Struct, forbid_unknown_fields=True):
    """A job that holds resources; ``consumes`` maps consumables to amounts."""

    id: Whole
    user: str
    start: Number
    walltime: Number
    resources: tuple[int, ...]
    project: str = "default"
    queue: str = "default"
    name: str = ""
    types: tuple[Word, ...] = ()
    consumes: dict[str, Any] = {}


class RequestEntry(Struct, forbid_unknown_fields=True):
    """An alternative of a waiting job: a request as after ``-l``, without the walltime."""

    resources: str
    walltime: Number


class JobEntry(Struct, forbid_unknown_fields=True):
    """A waiting job."""

    id: Whole
    user: str
    requests: Annotated[tuple[RequestEntry, ...], Meta(min_length=1)]
    project: str = "default"
    queue: str = "default"
    name: str = ""
    types: tuple[Word, ...] = ()
    submitted: Number = 0
    properties: str = ""
    depends_on: tuple[int | str, ...] = ()
    reservation: Number | None = None


class ScenarioFile(Struct, forbid_unknown_fields=True):
    """The whole file."""

    resources: list[dict[str, Any]]
    jobs: list[JobEntry]
    now: Number = 0
    security_time: Number = 0
    policy: PolicyName = "conservative"
    hierarchy: tuple[Word, ...] | UnsetType = UNSET
    queues: tuple[QueueEntry, ...] | UnsetType = UNSET
    quotas: tuple[QuotaEntry, ...] = ()
    consumables: tuple[ConsumableEntry, ...] = ()
    running: tuple[RunningEntry, ...] = ()
