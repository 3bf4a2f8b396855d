"""The leading server of two loses its network while jobs run, gets it back, and leads again when the other is killed.

``python -m tests.campaigns.cut_off_server`` (as root) runs it and prints how long everything took: the first server and
the nodes have network namespaces of their own, and all speak TCP to each other and to the database. A test
runs the same.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from oarpy.local_cluster.sandbox import Sandbox, Settings, command
from tests.campaigns.high_availability import Pair, report, started, until
from tests.campaigns.namespace_nodes import HERE, NodeFarm, cut, isolate, join, mend, run_nodes
from tests.campaigns.replicated_database import network_database
from tests.harness import bare_environment
from tests.harness.passable_folder import passable_folder

NODES = 3
_NAME, _ADDRESS = "server1", "10.77.0.200"


class _ElsewhereSandbox(Sandbox):
    """A sandbox whose server runs in the network namespace ``server1``."""

    def start(self) -> None:
        """Start the server there."""
        with (self.directory / "server.log").open("ab") as log:
            self._server = subprocess.Popen(
                ["ip", "netns", "exec", _NAME, command("oarpy"), "server"],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=self.environment(),
                start_new_session=True,
            )


@contextmanager
def run_pair(directory: Path) -> Iterator[Pair]:
    """Run both servers, the database and the nodes below ``directory``."""
    with ExitStack() as stack:
        farm = stack.enter_context(run_nodes(NODES, directory / "farm"))
        join(_NAME, _ADDRESS)
        url = stack.enter_context(network_database(directory / "postgresql", HERE))
        settings = _settings(url, farm, directory)
        first, second = _ElsewhereSandbox(directory / "first", settings), Sandbox(directory / "second", settings)
        yield stack.enter_context(started(first, second, url, [(node.name, node.address, 22) for node in farm.nodes]))


def _settings(url: str, farm: NodeFarm, directory: Path) -> Settings:
    return {
        "database": {"url": url, "connect_timeout": 2},
        "nodes": {
            "user": "root",
            "key_file": str(farm.key_file),
            "known_hosts": str(farm.known_hosts),
            "state_directory": str(directory / "farm" / "nodes"),
        },
    }


def run(pair: Pair) -> list[str]:
    """Cut, mend and kill; return what is wrong at the end (nothing, if all is well)."""
    long, burst = pair.submit_all()

    began = time.monotonic()
    cut(_NAME)
    burst.append(pair.measure("the leading server cut off", pair.second, began))
    # what it had still to say to the nodes arrives now
    mend(_NAME)
    until(lambda: all(pair.state(job) == "Terminated" for job in burst), "the short jobs end")

    began = time.monotonic()
    pair.kill_server(pair.second)
    burst.append(pair.measure("the second server killed, the first one back on the network", pair.first, began))
    return pair.end_all(long, burst)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run it once and print what happened; exit status 1 if anything was wrong."""
    argparse.ArgumentParser(description=__doc__).parse_args(arguments)
    isolate("tests.campaigns.cut_off_server", sys.argv[1:] if arguments is None else arguments)
    with passable_folder("oarpy-cut-") as directory, run_pair(directory) as pair:
        wrong = run(pair)
    return report(pair, wrong)


if __name__ == "__main__":
    bare_environment.enter()
    sys.exit(main())
