"""Types of jobs that change what is launched."""

from __future__ import annotations

from collections.abc import Iterable

PASSIVE, INTERACTIVE = "PASSIVE", "INTERACTIVE"
"""Kinds of jobs: one that runs its command, and one that is there for a shell of its user."""

NOOP = ("noop", "noop=standby")
"""Spellings of the type of a job that holds its resources and runs nothing.

``standby`` lets OAR place a job on nodes that sleep; here every job may have them and they are woken, so both mean the
same.
"""


def runs_nothing(types: Iterable[str]) -> bool:
    """Tell whether a job of these types launches nothing.

    >>> runs_nothing(["besteffort", "noop=standby"]), runs_nothing(["noop_like"])
    (True, False)
    """
    return not set(NOOP).isdisjoint(types)


ON_A_HOST = ("deploy", "deploy=standby", "cosystem", "cosystem=standby")
"""Spellings of the types of jobs whose program runs on a host of the site, their nodes being left alone."""


def on_a_host(types: Iterable[str]) -> str:
    """Return ``deploy`` or ``cosystem`` for a job of that type, else nothing.

    >>> on_a_host(["besteffort", "deploy=standby"]), on_a_host(["deployed"])
    ('deploy', '')
    """
    return next((kind.partition("=")[0] for kind in types if kind in ON_A_HOST), "")


PERMISSIVE = "state=permissive"


def is_permissive(types: Iterable[str]) -> bool:
    """Tell whether a job takes resources that are Absent or Suspected too: it runs nothing there, and says so.

    >>> is_permissive(["noop", "state=permissive"]), is_permissive(["state=permissive"])
    (True, False)
    """
    words = tuple(types)
    return PERMISSIVE in words and (runs_nothing(words) or on_a_host(words) == "cosystem")
