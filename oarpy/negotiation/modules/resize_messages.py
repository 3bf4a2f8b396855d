"""The messages to a launcher while its job runs: hosts that come, will be taken, or are gone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from oarpy.model.states import ExtensionState
from oarpy.negotiation.store.growth import DoneResize, JobGrowth
from oarpy.store.jobs.extensions import ExtensionRow

Message = dict[str, object]


@dataclass(slots=True)
class ResizeMessages:
    """The news already sent over one connection: resizes, estimates of extensions, dates of reclaimed hosts."""

    resizes: set[int] = field(default_factory=set)
    estimates: dict[int, object] = field(default_factory=dict)
    reclaimed: dict[str, float] = field(default_factory=dict)
    refused: set[int] = field(default_factory=set)

    def begin(self, growth: JobGrowth) -> None:
        """Count resizes as sent: the start message has their names. Earlier refusals count as sent, too."""
        self.resizes.update(resize.id for resize in growth.resizes)
        self.refused.update(row.id for row in growth.extensions.values() if row.state == ExtensionState.OVER)

    def news(self, growth: JobGrowth, cluster_of: Mapping[str, str]) -> Iterator[Message]:
        """Yield the news, in order; ``cluster_of`` names the cluster of a host."""
        for resize in growth.resizes:
            if resize.id in self.resizes:
                continue
            self.resizes.add(resize.id)
            row = growth.extensions.get(resize.extension or 0)
            if resize.extension is None:
                yield {"message": "released", "names": list(resize.hosts)}
            elif row is not None:
                yield {"message": "granted", "tag": row.tag, "kind": row.kind, **_granted(row, resize, cluster_of)}
        for row in growth.extensions.values():
            if row.state == ExtensionState.OVER and row.id not in self.refused:
                self.refused.add(row.id)
                if reason := (row.told or {}).get("refused"):
                    yield {"message": "refused", "of": "extend", "tag": row.tag, "code": 6, "reason": reason}
            known = self.estimates.get(row.id)
            if row.state == ExtensionState.WAITING and isinstance(row.told, Mapping) and row.told not in ({}, known):
                self.estimates[row.id] = row.told
                yield {"message": "estimate", **row.told}
        for at, hosts in growth.reclaimed.items():
            names = [name for name in hosts if self.reclaimed.get(name) != at]
            self.reclaimed.update((name, at) for name in names)
            if names:
                yield {"message": "reclaim", "names": names, "by": at}


def _granted(row: ExtensionRow, resize: DoneResize, cluster_of: Mapping[str, str]) -> Message:
    """Return the granted number in the requested unit, and the names of the hosts by cluster."""
    names: dict[str, list[str]] = {}
    for name in resize.hosts:
        names.setdefault(cluster_of.get(name, "all"), []).append(name)
    return {"hosts": dict(row.hosts), "names": names}
