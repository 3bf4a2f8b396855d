"""Commands that users run all the time load nothing that only some calls need."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = {
    "numpy",
    "pglast",
    "sqlalchemy",
    "alembic",
    "paramiko",
    "jinja2",
    "rich",
    "structlog",
    "ClusterShell",
}


@pytest.mark.parametrize(
    "command",
    [
        "oaralter",
        "oarstat",
        "oardel",
        "oarhold",
        "oarresume",
        "oarwalltime",
        "oarnodes",
        "oarnodesetting",
        "oarproject",
        "oarproperty",
        "oarqueue",
        "oaraccounting",
        "oaradmin",
    ],
)
def test_start_is_light(command: str) -> None:
    program = f"import sys, oarpy.commands.{command}; print(*(name.partition('.')[0] for name in sys.modules))"
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert set(loaded.split()) & HEAVY == set()
