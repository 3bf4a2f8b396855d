"""Levels: how deep each of some names is below those that it gives way to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

_NO_PARENTS: Final = MappingProxyType[str, str]({})


def depths(gives_way_to: Mapping[str, Sequence[str]], parents: Mapping[str, str] = _NO_PARENTS) -> dict[str, int]:
    """Return the level of each name that gives way to others or has a parent: one below the lowest that it names.

    No name is above its parent. The names of a circle, and those that depend on them, have no level.

    >>> depths({"guests": ["members"], "spare": ["guests"]}, {"spare of ann": "spare"})
    {'guests': 1, 'spare': 2, 'spare of ann': 2}
    """
    found: dict[str, int] = {}
    left = dict.fromkeys((*gives_way_to, *parents))
    while ready := [name for name in left if not left.keys() & {*gives_way_to.get(name, ()), parents.get(name, "")}]:
        for name in ready:
            named = [1 + found.get(other, 0) for other in gives_way_to.get(name, ())]
            found[name] = max(found.get(parents.get(name, ""), 0), *named, 0)
        left = {name: None for name in left if name not in found}
    return found
