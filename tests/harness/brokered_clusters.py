"""Clusters and a broker beside them, which enters by their doors: all with servers of their own, on one machine."""

from __future__ import annotations

import os
import pwd
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest

from oarpy.local_cluster.sandbox import Sandbox, local_nodes, running_sandbox
from tests.harness.gateway_process import CLIENT
from tests.harness.ordinary_users import ordinary_users
from tests.harness.passable_folder import passable_folder
from tests.harness.waiting import DEADLINE

BROKER = "campus"


@dataclass(frozen=True, slots=True)
class BrokeredClusters:
    """The broker's own server, the clusters by name, and the accounts of the broker and of its user."""

    broker: Sandbox
    clusters: Mapping[str, Sandbox]
    account: pwd.struct_passwd
    user: pwd.struct_passwd
    home: Path
    """A folder of the user's."""

    def door(self, name: str) -> list[str]:
        """Return the command by which the broker, that is its account, enters a cluster."""
        socket = self.clusters[name].directory / "gateway" / "socket"
        words = [sys.executable, "-c", CLIENT, str(self.account.pw_uid), "oargriddoor", BROKER]
        return ["env", "-i", f"OARPY_GATEWAY_SOCKET={socket}", *words]

    def sql(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        """Return what the broker's database answers."""
        with psycopg.connect(self.broker.dsn(), autocommit=True) as connection:
            cursor = connection.execute(statement, values)
            return cursor.fetchall() if cursor.description else []


@contextmanager
def brokered_clusters(
    cores: Mapping[str, int], database: Callable[[], dict[str, str]], **settings: Any
) -> Iterator[BrokeredClusters]:
    """Run clusters of one node each, with so many cores, and a broker; ``settings`` are keys of ``[grid]``.

    ``database`` makes a section ``[database]`` for each of them.
    """
    if os.getuid() != 0:
        pytest.skip("only root can make users")
    with ExitStack() as stack:
        account, user = stack.enter_context(ordinary_users("broker", "ann"))
        folder = stack.enter_context(passable_folder("oarpy-grid-"))
        door: Mapping[str, Any] = {"brokers": {BROKER: account.pw_name}, "evict": "besteffort"}
        clusters = {
            name: stack.enter_context(
                running_sandbox(
                    folder / name,
                    {"door": door, "database": database()},
                    local_nodes(f"/host={name}1/cpu={{1}}/core={{{number}}}"),
                    ("oargridctl", "grant", BROKER, user.pw_name, "--user", user.pw_name),
                )
            )
            for name, number in cores.items()
        }
        grid = {"enabled": True, "name": BROKER, **settings}
        broker = stack.enter_context(running_sandbox(folder / "broker", {"grid": grid, "database": database()}))
        for one in (*clusters.values(), broker):
            one.wait_for_gateway(DEADLINE)
        home = folder / "home"
        home.mkdir()
        os.chown(home, user.pw_uid, user.pw_gid)
        yield BrokeredClusters(broker, clusters, account, user, home)
