"""The billing units of use: hours of each kind of resource times the weight that the site gives it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from oarpy.model.request import Consumption

CORE: Final = "core"
"""The kind of resources of type ``default``."""
GPU: Final = "gpu"
"""The level by which jobs ask for GPUs, the property that names the GPU of a resource, and the kind of GPUs."""
GPU_SHARE: Final = "gpu_share"
"""The consumable by whose parts jobs share a GPU: hundredths of what it computes to NVIDIA's MPS."""
Kind = str
"""What ``accounting.weights`` may weight: :data:`CORE`, :data:`GPU`, or a consumable by its name."""


def billing_units(weights: Mapping[Kind, float], amounts: Mapping[Kind, float]) -> float:
    """Return ``amounts`` of time, by kind, as billing units of the same time; a kind without a weight is free.

    >>> billing_units({"core": 1, "gpu": 20}, {"core": 8, "gpu": 2})
    48
    """
    return sum(weights.get(kind, 0) * amount for kind, amount in amounts.items())


def hours_text(hours: float, to_whole: Callable[[float], int] = round) -> str:
    """Return hours of billing units for a sentence: with two decimals at most, which ``to_whole`` rounds.

    >>> from math import ceil, floor
    >>> hours_text(81.99999101, floor), hours_text(320.0), hours_text(1 / 3, ceil)
    ('81.99', '320', '0.34')
    """
    return f"{to_whole(round(hours * 100, 4)) / 100:.15g}"


def part_of_gpus(consumes: Iterable[Consumption]) -> float:
    """Return the part of each of its GPUs that a job has which shares them.

    >>> part_of_gpus((Consumption("gpu_share", 25),)), part_of_gpus((Consumption("gpu_memory", 25),))
    (0.25, 0)
    """
    return sum(min(consumption.amount, 100) / 100 for consumption in consumes if consumption.name == GPU_SHARE)
