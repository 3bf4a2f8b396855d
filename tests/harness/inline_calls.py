"""Calls to clusters that are carried out where they are asked for, so that a test decides what happens when."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, TypeVar

from oarpy.grid.broker.connections import ClusterConnections, clusters_of
from oarpy.grid.broker.conversations import ClusterCall, Conversation, Conversations
from oarpy.grid.calls.table import Call, Cluster
from oarpy.grid.clusters.virtual.cluster import VirtualClock
from oarpy.model.errors import OarpyError
from oarpy.store.grid.clusters import GridClusterRow

Result = TypeVar("Result")


def inline_calls(providers: Mapping[str, Cluster]) -> Callable[[ClusterCall], Future[object]]:
    """Return what makes each call at once."""

    def submit(call: ClusterCall) -> Future[object]:
        future: Future[object] = Future()
        try:
            future.set_result(call.made_of(providers[call.cluster]))
        except OarpyError as error:
            future.set_exception(error)
        return future

    return submit


def answer_instead(cluster: Cluster, kind: type[Call[Any]], answer: Callable[[Any, Callable[[Any], Any]], Any]) -> None:
    """Have calls of a kind answered by ``answer``: it gets the call, and what the cluster answers calls by."""
    real = cluster.ask

    def ask(call: Call[Any]) -> Any:
        return answer(call, real) if isinstance(call, kind) else real(call)

    cluster.ask = ask  # type: ignore[method-assign]


class InlineConnections(ClusterConnections):
    """Connections whose calls are made at once, by who asks."""

    def __init__(self, providers: Mapping[str, Cluster]) -> None:
        super().__init__(clusters_of("broker"))
        self._submit = inline_calls(providers)

    def adopt(self, rows: Sequence[GridClusterRow]) -> None:
        """Do nothing: the clusters are given."""

    def submit(self, call: ClusterCall) -> Future[object]:
        """Make a call."""
        return self._submit(call)


def carry_out(conversation: Conversation[Result], providers: Mapping[str, Cluster], clock: VirtualClock) -> Result:
    """Run a conversation to its end; the clock is turned through its pauses."""
    conversations = Conversations[Result](inline_calls(providers), clock)
    conversations.begin("it", conversation)
    while not (over := conversations.go_on()):
        clock.now = max(clock.now, conversations.wake_at() or 0)
    return over[0][1]
