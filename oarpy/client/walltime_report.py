"""What ``oarwalltime JOB_ID`` prints."""

from __future__ import annotations

from oarpy.client.rendering import json_text
from oarpy.client.walltime_changes import WalltimeStanding, signed, with_options
from oarpy.model.durations import format_duration


def as_text(standing: WalltimeStanding) -> str:
    """Return the lines for people."""
    if standing.why_not:
        possible = f"NO ({standing.why_not})"
    elif standing.possible_increase is None:
        possible = "UNLIMITED"
    else:
        possible = format_duration(standing.possible_increase)
    told = ""
    if standing.pending:
        told = with_options(forced=standing.forced, whole=standing.whole, delay_next_jobs=standing.delay_next_jobs)
    walltime = "none yet" if standing.walltime is None else format_duration(standing.walltime)
    return (
        f"Walltime change status for job {standing.job} (job is {standing.state.lower()}):\n"
        f"  Current walltime:     {walltime:>9}\n"
        f"  Possible increase:    {possible:>9}\n"
        f"  Already granted:      {signed(standing.granted):>9}\n"
        f"  Pending/unsatisfied:  {signed(standing.pending):>9}{told}\n"
    )


def as_json(standing: WalltimeStanding) -> str:
    """Return the same for programs; durations in seconds, null for no limit."""
    return json_text(
        {
            "job": standing.job,
            "state": standing.state,
            "walltime": standing.walltime,
            "possible_increase": standing.possible_increase,
            "why_not": standing.why_not,
            "granted": standing.granted,
            "pending": standing.pending,
            "forced": standing.forced,
            "whole": standing.whole,
            "delay_next_jobs": standing.delay_next_jobs,
        }
    )
