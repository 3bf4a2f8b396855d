"""The part of the demo about bags of tasks over clusters, one of which tells its offers alone.

What coordination gains is shown by the end of a local bag, with it and without it.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from typing import Any

from oarpy.client.rendering import local_date
from oarpy.grid.local.local_grid import LocalGrid
from oarpy.grid.local.transcript import CORES, Transcript, say, write
from oarpy.local_cluster.sandbox import Settings

DISCLOSE = {"north": "offers", "south": "load", "west": "load"}
"""What each cluster tells besides its offers."""
SITE: Settings = {"scheduler": {"promised_share": 100}}
"""Clusters may promise all that they have."""
_TASKS = 12
_GATEWAY_TIMEOUT = 60.0


class BagDemo(Transcript):
    """The steps, each a method. All clusters are idle before and after."""

    def run(self) -> None:
        """Run every step."""
        self._wait_for_ability("offer")
        self._shared_out()
        together = self._held_up("With coordination, north is told that by the broker")
        self._without_coordination()
        alone = self._held_up("Without coordination, nobody tells north")
        say("By when the local bag of north would be done, counted from the early end of the job before it")
        write(f"with coordination    : {together / 60:.0f} minutes\nwithout coordination : {alone / 60:.0f} minutes\n")
        self._hold(together < alone, "coordination has gained nothing")

    def _shared_out(self) -> None:
        """Share a bag out among three clusters, and wait until each task has run once."""
        say("A bag over three clusters: north tells its offers alone, so the policy that needs their load is not used")
        bag = ("--bag", str(_TASKS), "-l", "core=1,walltime=0:1:0", "--policy", "dplbv2")
        task = "echo $OAR_GRID_TASK >> tasks.$OAR_GRID_JOB_ID"
        rehearsed = self._show("oargridsub", "--dry-run", *bag, task)
        self._hold("plb is used" in rehearsed, "the policy did not fall back")
        (job,) = self._submit(*bag, task)
        self._show("oargridstat", "--why", str(job))
        self._hold(set(self._clusters(job)) == set(CORES), f"the bag is on {self._clusters(job)}")
        self._wait("all tasks have run", lambda: self._state(job) == "Terminated")
        self._show("oargridstat", str(job))
        record = self._job(job)["bag"]
        ran = Counter((self._grid.home / f"tasks.{job}").read_text().split())
        write(f"{len(ran)} tasks ran, each once\n")
        self._hold(ran == Counter(map(str, range(1, _TASKS + 1))), f"these tasks ran: {sorted(ran.elements())}")
        self._hold(record["promise"] is not None, "no completion was promised")

    def _held_up(self, what: str) -> float:
        """End a job early on north, where a bag over clusters and a local one wait.

        Return in how many seconds the local bag would be done.
        """
        say(
            "A bag over north and south waits for both, on north before a local bag. It is done when its tasks on south"
            f" are: earlier tasks on north gain it nothing. {what}"
        )
        for name, minutes in (("north", 20), ("south", 25), ("west", 60)):
            self._fill(name, f"walltime=0:{minutes}:0")
        (job,) = self._submit("--bag", "8", "-l", "core=1,walltime=0:10:0", "sleep 3600")
        self._hold(sorted(self._clusters(job)) == ["north", "south"], f"the bag is on {self._clusters(job)}")
        self._wait("all clusters that are told of its end know it", lambda: self._is_told(job))
        words = ("oarsub", "-d", str(self._grid.home), "--bag", "4", "-l", "core=1,walltime=0:2:0", "sleep 3600")
        local = int(self._show(*words, on="north").partition("OAR_JOB_ID=")[2].split()[0])
        before = self._local_bag(local)["expected"]
        self._delete_local("north")
        ended = time.time()
        self._wait("the local bag comes forward", lambda: self._local_bag(local)["expected"] < before - 60)
        expected = float(self._local_bag(local)["expected"])
        self._show("oargridstat", str(job))
        write(f"the local bag of north would be done by {local_date(expected)}, and by {local_date(before)} before\n")
        self._end(job)
        self._show("oardel", "--bag", str(local), on="north")
        for name in ("south", "west"):
            self._delete_local(name)
        self._wait("nothing is left on north", lambda: not self._is_busy(self._grid, "north"))
        return expected - ended

    def _without_coordination(self) -> None:
        """Start the broker anew, with ``grid.coordination`` off."""
        say("The broker is started anew with grid.coordination = false")
        broker = self._grid.broker
        grid = {**broker.settings["grid"], "coordination": False}
        broker.start_anew({**broker.settings, "grid": grid})
        broker.wait_for_gateway(_GATEWAY_TIMEOUT)

    def _is_told(self, job: int) -> bool:
        """Tell whether clusters know when a bag is done over all; without coordination there is nothing to know."""
        if self._grid.broker.settings["grid"].get("coordination") is False:
            return True
        query = "SELECT bool_and(told > 0) FROM grid_bag_parts WHERE job = %s AND promised IS NOT NULL"
        return self._grid.sql(query, job) == [(True,)]

    def _local_bag(self, bag: int) -> dict[str, Any]:
        """Return a bag of north as ``oarstat --bag`` has it."""
        return dict(json.loads(self._grid.run("oarstat", "--bag", str(bag), "-J", on="north").stdout))

    @staticmethod
    def _is_busy(grid: LocalGrid, cluster: str) -> bool:
        """Tell whether a job of the user is there."""
        return bool(json.loads(grid.run("oarstat", "-u", grid.user.pw_name, "-J", on=cluster).stdout or "{}"))
