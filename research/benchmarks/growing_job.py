"""The seconds until a running job gets more hosts: launchers of ``negotiation`` ask real agents of local nodes."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from oarpy.local_cluster.sandbox import local_nodes, running_sandbox
from oarpy.model.errors import OarpyError

from .launcher_connections import Heard, LauncherConnection, LauncherCrowd

_NODES = 4
_DEADLINE = 60.0


def grant_times(times: int) -> list[float]:
    """Return the seconds from ``extend`` to ``granted``, for as many extensions of one job by a host.

    Each host is given back before the next one is asked for.
    """
    with (
        tempfile.TemporaryDirectory(prefix="oarpy-bench-") as folder,
        running_sandbox(
            Path(folder), {"log": {"level": "warning"}}, local_nodes(f"/host=n[1-{_NODES}]/core={{2}}")
        ) as sandbox,
    ):
        sandbox.wait_for_gateway(_DEADLINE)
        crowd = LauncherCrowd(str(sandbox.directory / "gateway" / "socket"), sandbox.environment(), sandbox.directory)
        launcher = crowd.open()
        launcher.say("subscribe")
        job = _heard(crowd, launcher, "subscribed")["job"]
        name = next(iter(_heard(crowd, launcher, "changeNotify")["changes"]))
        launcher.say("request", tag=0, hosts={name: 1}, walltime=3600)
        _heard(crowd, launcher, "startNotify")
        sandbox.wait_for([job], ["Running"], _DEADLINE)
        seconds = []
        for tag in range(1, times + 1):
            began = time.monotonic()
            launcher.say("extend", tag=tag, hosts={name: 1}, kind="firm")
            granted = _heard(crowd, launcher, "granted")
            seconds.append(time.monotonic() - began)
            launcher.say("release", names=[host for hosts in granted["names"].values() for host in hosts])
            _heard(crowd, launcher, "released")
        crowd.close()
    return seconds


def _heard(crowd: LauncherCrowd, connection: LauncherConnection, word: str) -> Heard:
    """Return the first message of that word; raise :class:`OarpyError` for a refusal, and after a minute."""
    until = time.monotonic() + _DEADLINE
    while time.monotonic() < until:
        crowd.listen(0.05)
        for message in connection.messages():
            if message["message"] == "refused":
                raise OarpyError(f"the launcher was refused: {message['reason']}")
            if message["message"] == word:
                return message
    raise OarpyError(f"no message {word} came within {_DEADLINE:g} s")
