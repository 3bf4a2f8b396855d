"""What the gateway has ready before its first request."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import sys
from oarpy.gateway.commands import warm_up
warm_up()
print(sorted({"sqlalchemy", "alembic"} & sys.modules.keys()), "oarpy.store.jobs.submissions" in sys.modules)
"""


@pytest.mark.long
def test_workers_have_what_commands_need_and_nothing_of_migrations() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert done.stdout == "[] True\n"
