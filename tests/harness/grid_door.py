"""The door of a test's cluster, through a real gateway, for a broker whose account is an ordinary one."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from oarpy.grid.clusters.oarpy_cluster import OarpyCluster
from tests.harness.gateway_process import GatewayProcess, gateway

BROKER = "campus"


@dataclass(frozen=True, slots=True)
class Door:
    """A gateway with a door, and who the broker is there."""

    gateway: GatewayProcess
    uid: int

    def words(self, broker: str = BROKER, uid: int | None = None) -> list[str]:
        """Return the command of a session, with an environment that names no database."""
        variables = [f"{name}={value}" for name, value in self.gateway.user_environment().items()]
        own = self.gateway.command("oargriddoor", broker, uid=self.uid if uid is None else uid)
        return ["env", "-i", *variables, *own]

    def cluster(self, name: str = "here", *, seconds: float = 60.0) -> OarpyCluster:
        """Return the cluster as its broker has it."""
        return OarpyCluster(name, self.words(), seconds=seconds)

    def ask(self, *lines: bytes | str | dict[str, Any]) -> list[dict[str, Any]]:
        """Return the answers of one session to these lines."""
        coded = [line if isinstance(line, bytes) else _text(line).encode() for line in lines]
        done = subprocess.run(self.words(), input=b"\n".join([*coded, b""]), capture_output=True, timeout=120)
        assert (done.returncode, done.stderr) == (0, b""), done
        return [json.loads(line) for line in done.stdout.splitlines()]


def _text(line: str | dict[str, Any]) -> str:
    return line if isinstance(line, str) else json.dumps(line)


@contextmanager
def door(environment: Mapping[str, str], account: str, uid: int, **settings: object) -> Iterator[Door]:
    """Run a gateway whose door takes the broker from this account; ``settings`` are keys of ``[door]``."""
    brokers = {"brokers": f"{BROKER}={account}"}
    variables = {f"OARPY_DOOR_{name.upper()}": str(value) for name, value in {**brokers, **settings}.items()}
    with gateway({**environment, **variables}, workers=1) as found:
        yield Door(found, uid)
