"""What optional features add to the core, by name: the core asks each list for its things and imports no slice.

A name is ``module:thing``, as :func:`pkgutil.resolve_name` takes it. Who is asked has a class of the core to be one of.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Iterator
from typing import Any

_NEGOTIATION = "oarpy.negotiation"

STATE_PARTS = (
    "oarpy.cluster_state.bags:Bags",
    f"{_NEGOTIATION}.passes.applications:Applications",
    f"{_NEGOTIATION}.passes.extensions:Extensions",
    "oarpy.cluster_state.run_predictions:RunPredictions",
    "oarpy.cluster_state.mapped_jobs:MappedProcesses",
)
"""Classes :class:`~oarpy.cluster_state.state_part.StatePart`, made of a configuration."""

LAUNCHER_PARTS = (f"{_NEGOTIATION}.modules.application_launchers:ApplicationLaunchers",)
"""Classes :class:`~oarpy.modules.launcher.parts.Part`, made of a configuration."""

MODULES = {
    "negotiator": (f"{_NEGOTIATION}.modules.negotiator:Negotiator", "gateway.socket"),
    "elastic": ("oarpy.elastic.elastic_nodes:ElasticNodes", "elastic.most"),
    "recurrence": ("oarpy.recurrence.recurrence:Recurrence", "submission.recurring_jobs_per_user"),
}
"""Modules, made of a configuration, by their names; each runs where the setting beside it is neither empty nor 0."""

CONTRADICTIONS = (
    f"{_NEGOTIATION}.store.contradictions:contradictions",
    "oarpy.recurrence.contradictions:contradictions",
)
"""Functions that say, of a connection, what rows contradict themselves, a line each with what mends it."""


def things(names: tuple[str, ...]) -> Iterator[Any]:
    """Yield what is named."""
    return map(pkgutil.resolve_name, names)
