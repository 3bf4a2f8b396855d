"""Which values settings may have where their types allow more."""

from __future__ import annotations

import math

from oarpy.model.errors import UsageError
from oarpy.model.walltime_limits import limit_of

LINES = ("conservative", "easy", "fcfs")
"""How a queue is planned: what ``scheduler.policy`` may be."""

_LARGEST_PORT = 65535

_OF_ANY_SIGN = ("priority.",)
"""Sections whose numbers are weights."""

ABOVE_ZERO = frozenset(
    {
        "database.connect_timeout",
        "submission.default_walltime",
        "submission.maximum_array_size",
        "submission.rule_time_limit",
        "priority.window",
        "priority.full_age",
        "nodes.port",
        "nodes.connect_timeout",
        "nodes.ping_interval",
        "nodes.lost_timeout",
        "energy.nodes_per_command",
        "modules.metascheduler",
        "modules.launcher",
        "modules.canceller",
        "modules.monitor",
        "modules.accounting",
        "modules.accounting_window",
        "modules.notifier",
        "modules.energy",
        "gateway.workers",
        "gateway.most_workers",
        "gateway.workers_per_user",
        "gateway.request_timeout",
        "gateway.time_limit",
    }
)
"""Numbers that mean nothing when they are 0; all others may be."""

WALLTIME_LIMITS = frozenset({"walltime.max_increase", "walltime.minimum", "walltime.apply_time", "walltime.increment"})


def check(setting: str, value: object, where: str) -> None:
    """Raise :class:`UsageError`, which names ``where``, unless ``setting`` (``section.key``) may be ``value``."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        _check_number(setting, value, where)
    elif isinstance(value, tuple) and setting in WALLTIME_LIMITS:
        try:
            limit_of(value, "", 1)
        except UsageError as error:
            raise UsageError(f"{where}: {error.message}", hint=error.hint) from None
    elif setting == "scheduler.policy" and value not in LINES:
        raise UsageError(f"{where}: '{str(value)[:40]}' is no policy", hint="one of " + ", ".join(LINES))


def _check_number(setting: str, value: float, where: str) -> None:
    above, any_sign = setting in ABOVE_ZERO, setting.startswith(_OF_ANY_SIGN)
    if setting == "nodes.port" and value > _LARGEST_PORT:
        raise UsageError(f"{where}: {value} is out of range", hint=f"at most {_LARGEST_PORT}")
    if not math.isfinite(value):
        raise UsageError(f"{where}: {value} is out of range", hint="a finite number")
    if (above and value <= 0) or (value < 0 and not any_sign):
        raise UsageError(f"{where}: {value} is out of range", hint="above 0" if above else "0 or more")
