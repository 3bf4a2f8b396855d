"""``python -m oarpy.modules NAME``: one module as a process, as the supervisor starts it."""

from __future__ import annotations

import sys

from oarpy.configuration import load
from oarpy.model.errors import OarpyError
from oarpy.modules import registry


def main() -> int:
    """Run the named module until SIGTERM."""
    try:
        return registry.run(sys.argv[1], load(), once=False)
    except OarpyError as error:
        sys.stderr.write(f"oarpy: {error}\n")
        return error.exit_status


if __name__ == "__main__":
    sys.exit(main())
