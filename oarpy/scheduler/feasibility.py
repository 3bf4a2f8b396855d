"""Can a request ever be served? Asked at submission, before a job exists."""

from __future__ import annotations

from collections.abc import Sequence

from oarpy.scheduler.matching import Matchers, shortage
from oarpy.scheduler.platform import Platform
from oarpy.scheduler.snapshot import Alternative


def feasible(
    platform: Platform, alternative: Alternative, mask: int | Sequence[int], matchers: Matchers | None = None
) -> str | None:
    """Say why ``alternative`` can never be served by free resources that are not Dead; None when it can.

    ``mask`` is the set of resources that the filters admit, one for all groups or one per group (see
    ``Snapshot.filters``). ``matchers``, kept by the caller, saves compiling equal requests again.
    """
    masks = [mask] * len(alternative.groups) if isinstance(mask, int) else list(mask)
    if matchers is None or matchers.platform is not platform:
        matchers = Matchers(platform)
    matcher = matchers.request(alternative.groups, [wanted & platform.not_dead for wanted in masks])
    if matcher.match(matcher.usable):
        return None
    return shortage(matcher, [group.filter for group in alternative.groups])
