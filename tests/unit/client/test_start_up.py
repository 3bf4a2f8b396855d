"""What commands load before they know what is asked: nothing that only some calls need."""

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
    "hypothesis",
}


@pytest.mark.parametrize("command", ["oarsub", "oaradmissionrules"])
def test_imports(command: str) -> None:
    program = f"import sys, oarpy.commands.{command}; print(*(name.partition('.')[0] for name in sys.modules))"
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert not HEAVY & set(loaded.split())
