"""Calls to clusters that are carried out where they are asked for, so that a test decides what happens when."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import TypeVar

from oarpy.grid.broker.connections import ClusterConnections, providers_of
from oarpy.grid.broker.errands import ClusterCall, Errand, Errands
from oarpy.grid.provider import Provider
from oarpy.grid.providers.simulated_cluster import VirtualClock
from oarpy.model.errors import OarpyError
from oarpy.store.grid.clusters import GridClusterRow

Result = TypeVar("Result")


def inline_calls(providers: Mapping[str, Provider]) -> Callable[[ClusterCall], Future[object]]:
    """Return what makes each call at once."""

    def submit(call: ClusterCall) -> Future[object]:
        future: Future[object] = Future()
        try:
            future.set_result(call.ask(providers[call.cluster]))
        except OarpyError as error:
            future.set_exception(error)
        return future

    return submit


class InlineConnections(ClusterConnections):
    """Connections whose calls are made at once, by who asks."""

    def __init__(self, providers: Mapping[str, Provider]) -> None:
        super().__init__(providers_of("broker"))
        self._submit = inline_calls(providers)

    def adopt(self, rows: Sequence[GridClusterRow]) -> None:
        """Do nothing: the clusters are given."""

    def submit(self, call: ClusterCall) -> Future[object]:
        """Make a call."""
        return self._submit(call)


def carry_out(errand: Errand[Result], providers: Mapping[str, Provider], clock: VirtualClock) -> Result:
    """Run an errand to its end; the clock is turned through its pauses."""
    errands = Errands[Result](inline_calls(providers), clock)
    errands.begin("it", errand)
    while not (over := errands.go_on()):
        clock.now = max(clock.now, errands.wake_at() or 0)
    return over[0][1]
