"""Why a job starts, or does not start, in this pass."""

from __future__ import annotations

from enum import StrEnum


class Verdict(StrEnum):
    """One word per job and pass; the words are part of the output format of ``oarpy plan``."""

    STARTS = "starts"
    """Starts now, nothing in its way."""
    RESERVED = "reserved"
    """An accepted reservation in the future."""
    RESOURCES_BUSY = "resources_busy"
    """Running jobs, accepted reservations, or best-effort jobs that are being cancelled hold its resources."""
    BEHIND_HIGHER_PRIORITY = "behind_higher_priority"
    """It would fit beside the running jobs, but jobs ahead of it take the resources."""
    DEPENDENCY = "dependency"
    """It waits for another job, which may itself not be placed."""
    DATE = "date"
    """It is postponed, or its dates leave it no place."""
    QUOTA = "quota"
    """Resources are there, a quota keeps it waiting."""
    RESERVATION = "reservation"
    """A reservation that is refused."""
    RESOURCES_DOWN = "resources_down"
    """It would need resources that are Absent or Suspected."""
    HELD = "held"
    """Held by its user or an administrator."""
    NEVER = "never"
    """No resources of this platform can ever serve it."""


class Lapse(StrEnum):
    """The limit that a job can no longer meet, whatever happens; the words are types of events."""

    EXPIRED = "JOB_EXPIRED"
    """It has not started by its date of expiry."""
    DEADLINE_MISSED = "DEADLINE_MISSED"
    """Started now it would end after its deadline."""
    WINDOW_MISSED = "DEPENDENCY_WINDOW_MISSED"
    """It has not started within the time that a job it depends on left it."""
