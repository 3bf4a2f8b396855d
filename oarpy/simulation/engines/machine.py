"""The machine that a workload is replayed on: equal processors, given one by one or by whole nodes."""

from __future__ import annotations

from dataclasses import dataclass

from oarpy.model.errors import UsageError

_MOST_NAMED = 1_000_000
"""Processors that can be named one by one in reasonable memory."""


@dataclass(frozen=True, slots=True)
class Machine:
    """``procs`` processors; with ``cores_per_node`` above 1 a job gets whole nodes of that many."""

    procs: int
    cores_per_node: int = 1

    def __post_init__(self) -> None:
        """Refuse a machine without processors or of broken nodes."""
        if self.procs < 1:
            raise UsageError(f"{self.procs} processors is not a machine", hint="a number above 0")
        if self.cores_per_node < 1 or self.procs % self.cores_per_node:
            raise UsageError(
                f"{self.procs} processors are not whole nodes of {self.cores_per_node}", hint="give a multiple"
            )

    def require_names(self) -> None:
        """Raise :class:`UsageError` when there are more processors than can be named: a million."""
        if self.procs > _MOST_NAMED:
            raise UsageError(
                f"{self.procs} processors are too many for a policy that names them, at most {_MOST_NAMED}",
                hint="fcfs and easy count them",
            )

    @property
    def nodes(self) -> int:
        """Number of nodes."""
        return self.procs // self.cores_per_node

    def nodes_for(self, procs: int) -> int:
        """Return the nodes that hold ``procs`` processors."""
        return -(-procs // self.cores_per_node)

    def size(self, procs: int) -> int:
        """Return the processors that a job of ``procs`` takes: whole nodes.

        >>> Machine(34, 2).size(9)
        10
        """
        return self.nodes_for(procs) * self.cores_per_node
