"""``python -m oarpy.gateway``: how the supervisor starts the gateway as a process of its own."""

from __future__ import annotations

import os
import sys

# one thread a process: a worker is forked, and threads of a library for linear algebra are not
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from oarpy.configuration import load
from oarpy.gateway.gateway import Gateway
from oarpy.model.errors import OarpyError, UsageError
from oarpy.modules.loop.logging import configure_logging
from oarpy.modules.loop.parent import die_with_supervisor


def main() -> int:
    """Run the gateway until SIGTERM; return the exit status."""
    try:
        configuration = load()
        if not configuration.gateway.socket:
            raise UsageError("gateway.socket is not set", hint="name a socket in the configuration file")
        die_with_supervisor()
        configure_logging(configuration.log)
        Gateway(configuration).run()
    except OarpyError as error:
        sys.stderr.write(f"oarpy gateway: {error}\n")
        return error.exit_status
    return 0


if __name__ == "__main__":
    sys.exit(main())
