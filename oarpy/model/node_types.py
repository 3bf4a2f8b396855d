"""Types of nodes, for programs on unlike ones: the values of the property that a setting names."""

from __future__ import annotations

from collections.abc import Iterable

ONE_TYPE = "all"
"""The type of all nodes where no property tells types apart."""


def of_types(node_type: str, values: Iterable[object]) -> str:
    """Return the condition on resources that they are of one of these types; empty where there is one type alone.

    >>> of_types("kind", ["fast", "it's"]), of_types("", ["all"])
    ("kind IN ('fast', 'it''s')", '')
    """
    return f"{node_type} IN ({', '.join(map(_written, values))})" if node_type else ""


def _written(value: object) -> str:
    """Return a value as SQL has it."""
    text = str(value)
    return "'" + text.replace("'", "''") + "'" if isinstance(value, str) else text
