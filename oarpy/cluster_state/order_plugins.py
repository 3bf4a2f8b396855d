"""The orders that queues may name: the scheduler's own, and plug-ins of the entry point group ``oarpy.queue_policies``.

A plug-in is a function of a :class:`~oarpy.scheduler.order.queue_orders.Candidate` that returns a tuple of numbers: the
job with the smallest goes first. A plug-in that cannot be loaded, or is no function, stops only the queues that name
it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib.metadata import EntryPoint, entry_points

from oarpy.scheduler.order.queue_orders import ORDERS, Candidate, Order, windowed

GROUP = "oarpy.queue_policies"


class SiteOrders(Mapping[str, Order]):
    """Orders by name, ``NAME/SECONDS`` too. Other names are looked up in installed packages."""

    def __init__(self) -> None:
        self._loaded: dict[str, Order] = dict(ORDERS)
        self._found: dict[str, EntryPoint] | None = None

    def __getitem__(self, name: str) -> Order:
        if name not in self._loaded:
            self._loaded[name] = windowed(name, self) if "/" in name else _load(self._plug_ins()[name])
        return self._loaded[name]

    def __iter__(self) -> Iterator[str]:
        return iter({**ORDERS, **self._plug_ins()})

    def __len__(self) -> int:
        return len({**ORDERS, **self._plug_ins()})

    def _plug_ins(self) -> dict[str, EntryPoint]:
        """Return the plug-ins; they cannot replace the scheduler's own orders."""
        if self._found is None:
            self._found = {point.name: point for point in entry_points(group=GROUP) if point.name not in ORDERS}
        return self._found


def _load(point: EntryPoint) -> Order:
    """Load a plug-in; after an error, return an order that raises it, so that it concerns only the queue."""
    try:
        order = point.load()
    except Exception as error:  # a plug-in may raise anything
        return _broken(f"{point.value} cannot be loaded: {type(error).__name__}: {error}")
    return order if callable(order) else _broken(f"{point.value} is not a function")


def _broken(reason: str) -> Order:
    def order(candidate: Candidate) -> tuple[float, ...]:
        raise ValueError(reason)

    return order
