"""The billing units of use: hours of each kind of resource times the weight that the site gives it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

GPU: Final = "gpu"
"""The level by which jobs ask for GPUs, and the property that names the GPU of a resource."""
BilledKind = Literal["core", "gpu"]
"""The kinds that ``accounting.weights`` may weight: resources of type ``default``, and GPUs."""


def billing_units(weights: Mapping[BilledKind, float], amounts: Mapping[BilledKind, float]) -> float:
    """Return ``amounts`` of time, by kind, as billing units of the same time; a kind without a weight is free.

    >>> billing_units({"core": 1, "gpu": 20}, {"core": 8, "gpu": 2})
    48
    """
    return sum(weights.get(kind, 0) * amount for kind, amount in amounts.items())
