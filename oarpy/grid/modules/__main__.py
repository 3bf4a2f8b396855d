"""``python -m oarpy.grid.modules NAME [--once]``: one module of the broker as a process."""

from __future__ import annotations

import sys

from oarpy.configuration import load
from oarpy.grid.modules.registry import MODULES
from oarpy.model.errors import NotFound, OarpyError
from oarpy.modules.registry import run_module


def main() -> int:
    """Run the named module until SIGTERM, or once."""
    name = sys.argv[1] if len(sys.argv) > 1 else ""
    try:
        if name not in MODULES:
            raise NotFound(f"no module '{name}' of a broker", hint="one of " + ", ".join(MODULES))
        return run_module(MODULES[name], load(), once="--once" in sys.argv[2:])
    except OarpyError as error:
        sys.stderr.write(f"oarpy: {error}\n")
        return error.exit_status


if __name__ == "__main__":
    sys.exit(main())
