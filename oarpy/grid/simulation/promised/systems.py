"""The systems with planned starts, a row each: the kinds of a file, and the world that it runs in."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from oarpy.grid.simulation.promised import fields
from oarpy.grid.simulation.promised.bags import BagsWorld
from oarpy.grid.simulation.promised.flexco import FlexcoWorld
from oarpy.grid.simulation.promised.offers import OffersWorld
from oarpy.grid.simulation.promised.reader import (
    FileKinds,
    check_bags_job,
    check_flexco_job,
    check_offers_job,
    check_window_job,
    read_promised,
)
from oarpy.grid.simulation.promised.windows import WindowsWorld
from oarpy.grid.simulation.promised.world import PromisedScenario, PromisedWorld


@dataclass(frozen=True, slots=True)
class System:
    """How files of a system are read, and run."""

    kinds: FileKinds
    world: Callable[[PromisedScenario[Any, Any]], PromisedWorld[Any, Any]]


SYSTEMS: Mapping[str, System] = {
    "windows": System(
        FileKinds(fields.WindowsFile, fields.ClusterEntry, fields.WindowJobEntry, check_window_job), WindowsWorld
    ),
    "flexco": System(
        FileKinds(fields.FlexcoFile, fields.ClusterEntry, fields.FlexcoJobEntry, check_flexco_job), FlexcoWorld
    ),
    "offers": System(
        FileKinds(fields.OffersFile, fields.ClusterEntry, fields.OffersJobEntry, check_offers_job), OffersWorld
    ),
    "bags": System(
        FileKinds(fields.BagsFile, fields.EstimatingClusterEntry, fields.BagsJobEntry, check_bags_job), BagsWorld
    ),
}


def read_world(text: str, system: str) -> PromisedWorld[Any, Any]:
    """Return the world of a file before its first event. Raises :class:`UsageError`."""
    row = SYSTEMS[system]
    return row.world(read_promised(text, system, row.kinds))
