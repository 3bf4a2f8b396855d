"""Clusters and a broker beside them, which enters by their doors: all with servers of their own, on one machine.

Only root can run it: the broker, its user and the servers are different users of the machine.
"""

from __future__ import annotations

import os
import pwd
import shlex
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg

from oarpy.local_cluster.sandbox import Sandbox, Settings, local_nodes, running_sandbox
from oarpy.local_cluster.user_commands import user_command
from oarpy.model.errors import NotAllowed, OarpyError

BROKER = "campus"
_GATEWAY_TIMEOUT = 60.0


@dataclass(frozen=True, slots=True)
class LocalGrid:
    """The broker's own server, the clusters by name, and the accounts of the broker and of its user."""

    broker: Sandbox
    clusters: Mapping[str, Sandbox]
    account: pwd.struct_passwd
    user: pwd.struct_passwd
    home: Path
    """A folder of the user's."""

    def door(self, name: str) -> list[str]:
        """Return the command by which the broker's account enters a cluster."""
        return _command(self.clusters[name].directory, self.account, "oargriddoor", BROKER)

    def command(self, *words: str, on: str = "") -> list[str]:
        """Return a command of the user, at the broker or on a cluster."""
        return _command((self.clusters[on] if on else self.broker).directory, self.user, *words)

    def run(self, *words: str, on: str = "", check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run a command of the user in the user's folder. Raises :class:`OarpyError` when it fails and ``check``."""
        done = subprocess.run(
            self.command(*words, on=on),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            cwd=self.home,
            check=False,
        )
        if check and done.returncode:
            raise OarpyError(f"{shlex.join(words)} ended with {done.returncode}: {(done.stderr or done.stdout)[-500:]}")
        return done

    def submit(self, *words: str) -> list[int]:
        """Submit to the broker, and return the ids of the jobs."""
        printed = self.run("oargridsub", "-d", str(self.home), *words).stdout
        return [int(line.rpartition("=")[2]) for line in printed.splitlines() if "Grid reservation id = " in line]

    def sql(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        """Return the rows of a statement in the broker's database."""
        with psycopg.connect(self.broker.dsn(), autocommit=True) as connection:
            cursor = connection.execute(statement, values)
            return cursor.fetchall() if cursor.description else []


@contextmanager
def local_grid(
    folder: Path,
    cores: Mapping[str, int],
    account: pwd.struct_passwd,
    user: pwd.struct_passwd,
    *,
    database: Callable[[], dict[str, str]] | None = None,
    site: Settings | None = None,
    disclose: Mapping[str, str] | None = None,
    **settings: Any,
) -> Iterator[LocalGrid]:
    """Run clusters of one node each, with ``cores``, and a broker; ``settings`` are keys of ``[grid]``.

    ``site`` has further sections of the configuration of each cluster, ``disclose`` what each tells with its offers.
    Every user must be able to enter ``folder``. ``database`` makes a section ``[database]`` for each server; without it
    each has a database server of its own. At the end all is stopped. Raises :class:`NotAllowed` if the caller is not
    root.
    """
    if os.getuid() != 0:
        raise NotAllowed("several clusters on one machine need different users", hint="run it as root")

    def back(name: str) -> str:
        """Return the command by which a cluster enters the broker, as the same account."""
        return shlex.join(_command(folder / "broker", account, "oargriddoor", name))

    with ExitStack() as stack:
        own: Mapping[str, Any] = (site or {}).get("door", {})
        common: Mapping[str, Any] = {**own, "brokers": {BROKER: account.pw_name}, "evict": "besteffort"}
        doors = {
            name: {**common, "broker_doors": {BROKER: back(name)}, **({"disclose": disclose[name]} if disclose else {})}
            for name in cores
        }
        clusters = {
            name: stack.enter_context(
                running_sandbox(
                    folder / name,
                    _with_database({**(site or {}), "door": doors[name]}, database),
                    local_nodes(f"/host={name}1/cpu={{1}}/core={{{number}}}"),
                    ("oargridctl", "grant", BROKER, user.pw_name, "--user", user.pw_name),
                )
            )
            for name, number in cores.items()
        }
        grid = {"enabled": True, "name": BROKER, "accounts": dict.fromkeys(cores, account.pw_name), **settings}
        broker = stack.enter_context(running_sandbox(folder / "broker", _with_database({"grid": grid}, database)))
        for cluster in (*clusters.values(), broker):
            cluster.wait_for_gateway(_GATEWAY_TIMEOUT)
        home = folder / "home"
        home.mkdir()
        os.chown(home, user.pw_uid, user.pw_gid)
        yield LocalGrid(broker, clusters, account, user, home)


def _command(there: Path, who: pwd.struct_passwd, *words: str) -> list[str]:
    """Return a command of a user to the server in a folder."""
    return ["env", "-i", f"OARPY_GATEWAY_SOCKET={there / 'gateway' / 'socket'}", *user_command(who.pw_uid, *words)]


def _with_database(settings: Settings, database: Callable[[], dict[str, str]] | None) -> Settings:
    return {**settings, "database": database()} if database is not None else settings


def add_clusters(grid: LocalGrid) -> None:
    """Add all clusters to the broker, in their order."""
    for place, name in enumerate(grid.clusters):
        grid.broker.run(
            "oargridctl", "clusters", "add", name, "--door", shlex.join(grid.door(name)), "--place", str(place)
        )
