"""The contents of a file of ``oarpy negotiate``: a struct for each of its objects. Keys with a default are optional.

Times are seconds. Checks beyond types are in :mod:`oarpy.negotiation.simulation.reader`.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from oarpy.model.typed_values import Exact

Number = Annotated[Exact, Meta(description="a number")]
ONE = Exact(1)


class ClusterEntry(Struct, forbid_unknown_fields=True):
    """Equal hosts."""

    hosts: int
    speed: Number = ONE


class RigidEntry(Struct, forbid_unknown_fields=True):
    """Runs ``duration`` on ``hosts`` of a cluster of speed 1."""

    hosts: int
    duration: Number
    margin: Number = ONE


class MoldableEntry(Struct, forbid_unknown_fields=True):
    """Runs on ``min`` to ``max`` hosts of one cluster; ``P`` is the part of its work that runs in parallel."""

    P: Number
    min: int
    max: int
    single: Number
    margin: Number = ONE


class ComplexEntry(Struct, forbid_unknown_fields=True):
    """Runs on several clusters at once."""

    work: Number
    iterations: Number
    margin: Number = ONE


class ApplicationEntry(Struct, forbid_unknown_fields=True):
    """An application: when it comes, and exactly one way in which it asks."""

    id: int
    arrives: Number
    clusters: tuple[str, ...] | UnsetType = UNSET
    delay: Number | UnsetType = UNSET
    lasts: Number | UnsetType = UNSET
    script: tuple[tuple[Number, dict[str, Any], Number], ...] | UnsetType = UNSET
    rigid: RigidEntry | UnsetType = UNSET
    moldable: MoldableEntry | UnsetType = UNSET
    complex: ComplexEntry | UnsetType = UNSET


class NegotiationFile(Struct, forbid_unknown_fields=True):
    """The whole file."""

    clusters: dict[str, Any]
    applications: tuple[Any, ...]
    fair_start: Number = Exact(5)
    timer: Number = ONE
    security: Number = Exact(0)
    ghosts: Literal["needed", "always"] = "needed"
    rank: Literal["first-request", "submission"] = "first-request"
    most: int = 200
    latency: tuple[tuple[str, str, Number], ...] = ()
