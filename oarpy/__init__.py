"""oarpy: an OAR-style batch scheduler whose whole state is in PostgreSQL."""

from __future__ import annotations


def installed_version() -> str:
    """Return the version that is installed, such as 0.1.0.dev7; its build took it from git."""
    from importlib.metadata import version

    return version("oarpy-scheduler")
