"""The columns that a job takes from the job that it repeats, on its own or at its user's request."""

from __future__ import annotations

from oarpy.model.submission import COPIED_COLUMNS

_OTHERWISE = {
    # the promise was made to the job that is over
    "types": "array_remove(jobs.types, 'bag')",
    # the present one of its array
    "throttle": "coalesce((SELECT min(o.throttle) FROM jobs o WHERE o.array_id = jobs.array_id AND is_live(o.state)),"
    " jobs.throttle)",
}

_OF_TASKS = {**_OTHERWISE, "types": "jobs.types"}

COPIED = ", ".join(COPIED_COLUMNS)
"""The columns."""
COPIES = ", ".join(_OTHERWISE.get(column, f"jobs.{column}") for column in COPIED_COLUMNS)
"""Their values, of the row ``jobs``."""
COPIES_OF_TASKS = ", ".join(_OF_TASKS.get(column, f"jobs.{column}") for column in COPIED_COLUMNS)
"""The same, but a copy of a task of a bag is a task, too."""
