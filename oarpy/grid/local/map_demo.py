"""The part of the demo about a program whose processes are mapped over two clusters, and then over one of them.

The program is the optimiser of the examples. Its result is the same wherever its processes run.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from oarpy.grid.local import island_job
from oarpy.grid.local.transcript import Transcript, say, write

_RATE = f"""\
#!/bin/sh
# the nodes are of one machine: south is told to compute half as fast as it does
{island_job.PROGRAM} --rate "$1" "$2" | {{
    read word rate
    grep -q south "$OAR_NODE_FILE" && rate=$(awk "BEGIN {{ print $rate / 2 }}")
    echo "$word $rate"
}}
"""
_ISLANDS = f"""\
#!/bin/sh
cp "$OAR_GRID_MAPFILE" map.$OAR_GRID_JOB_ID
{island_job.PROGRAM} --address localhost >found.$OAR_GRID_JOB_ID
"""
_PROCESSES, _ITERATIONS = 8, 200
_MAPPED = (
    *("--parts", "any", "--processes", str(_PROCESSES), "--iterations", str(_ITERATIONS)),
    *("--sizes", "regular,random", "--rate", "./rate.sh", "--at-most", "west=0", "-l", "core=4"),
)
_USED = ("north", "south")


class MapDemo(Transcript):
    """The steps, each a method. All clusters are idle before and after."""

    def run(self) -> None:
        """Run every step, if the user can run the program."""
        say("A program of eight processes of two sizes, mapped over unlike nodes of two clusters")
        home, scripts = self._grid.home, island_job.commands_of_nodes(self._grid)
        island_job.prepare(home)
        if missing := island_job.what_is_missing(home, self._grid.user):
            write(f"{missing}: this part is left out\n")
            return
        self._wait("nodes have the commands of users", lambda: all(map(Path.exists, scripts)))
        island_job.let_users_run(scripts)
        for name, text in (("rate.sh", _RATE), ("islands", _ISLANDS)):
            path = home / name
            path.write_text(text, encoding="utf-8")
            path.chmod(0o755)
        self._wait_for_ability("rate")
        longer = {name: self._occupy(name, 2, 60) for name in _USED}
        self._over_both()
        shorter = {name: self._occupy(name, 2, 20) for name in _USED}
        self._remapped([longer["south"], shorter["south"]])
        for job in (longer["north"], shorter["north"]):
            self._delete("north", job)

    def _over_both(self) -> None:
        """Run the program over two clusters that are half full."""
        say("Two cores of each cluster are free: each measures the program, which is mapped to these four cores")
        job = self._submit_mapped()
        self._show("oargridstat", "--why", str(job))
        self._computed(job, {"north": 2, "south": 2})
        self._show("oarrates", on="south")

    def _remapped(self, on_south: Sequence[int]) -> None:
        """Have the program begin on south alone, when the jobs there end early: it was mapped to both."""
        say("The same again, with all cores taken: it is mapped to both clusters, which are half free in 20 minutes")
        job = self._submit_mapped("--operation", "remap")
        self._hold("Predicted: " in self._show("oargridstat", "--why", str(job)), "it has no map")
        self._hold(sorted(self._clusters(job)) == ["north", "south"], f"the job is on {self._clusters(job)}")
        say("South is free early: the program gets another map, of four cores there, and begins at once")
        for number in on_south:
            self._delete("south", number)
        self._wait("the job runs", lambda: self._clusters(job) == ["south"])
        self._computed(job, {"south": 4})
        moved = self._show("oargridstat", "--moves", str(job))
        way = r"remap north 2, south 2 at .* -> south 4 at .*: moved"
        self._hold(re.search(way, moved) is not None, "it did not move so")

    def _submit_mapped(self, *options: str) -> int:
        """Submit the program, and wait until it has its place; its rates may take longer than the command waits."""
        words = ("oargridsub", "-d", str(self._grid.home), *_MAPPED, *options, "./islands")
        job = int(self._show(*words, late=True).partition("Grid job ")[2].split()[0])
        self._wait("the job has its place", lambda: bool(self._clusters(job)))
        return job

    def _computed(self, job: int, cores: dict[str, int]) -> None:
        """Wait for the end of a job, and hold its map and its result against what should be."""
        self._wait_for_end(job)
        self._hold(self._state(job) == "Terminated", f"job {job} is {self._state(job)}")
        its_map = f"map.{job}"
        shown = (self._grid.home / its_map).read_text(encoding="utf-8")
        write(f"$ cat {its_map}\n{shown}")
        used = {tuple(line.split()[2:4]) for line in shown.splitlines()}
        self._hold(Counter(host[:-1] for host, _ in used) == cores, f"it ran on {sorted(used)}")
        mapped = (self._grid.home / f"found.{job}").read_text(encoding="utf-8")
        write(f"mapped   : {mapped}")
        serial = island_job.run(self._grid.home, self._grid.user, "--serial", its_map).stdout
        write(f"in series: {serial}")
        found = [text.partition(" s")[0].rpartition(",")[0] for text in (mapped, serial)]
        self._hold(found[0] == found[1], "the results differ")
