"""``oarpy grid demo``: a broker and three clusters on this machine, shown by real jobs, as a transcript."""

from __future__ import annotations

import pwd
import re
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

from oarpy.grid.local.bag_demo import DISCLOSE, SITE, BagDemo
from oarpy.grid.local.frame_demo import FrameDemo
from oarpy.grid.local.local_grid import add_clusters, local_grid
from oarpy.grid.local.map_demo import MapDemo
from oarpy.grid.local.metajob_demo import MetajobDemo
from oarpy.grid.local.transcript import CORES, DEADLINE, Transcript, say, write
from oarpy.model.errors import OarpyError

_ACCOUNTS = (("games", "news", "mail"), ("nobody", "daemon", "uucp"))
"""Users of every Unix: one for the broker, and one for the submitter."""
_LONG = "walltime=1:0:0"


def run_grid_demo() -> None:
    """Run every step in a folder that is removed at the end. Raises :class:`OarpyError` when one goes wrong."""
    folder = Path(tempfile.mkdtemp(prefix="oarpy-grid-demo-"))
    folder.chmod(0o755)
    broker, user = map(_account, _ACCOUNTS)
    began = time.monotonic()
    try:
        say("Three clusters, each with a database and a server of its own, and a broker that enters by their doors")
        settings: dict[str, Any] = {"site": SITE, "disclose": DISCLOSE, "algorithm": 1, "kill_grace": 2.0}
        with local_grid(folder, CORES, broker, user, **settings) as grid:
            GridDemo(grid).run()
            MetajobDemo(grid).run()
            MapDemo(grid).run()
            FrameDemo(grid).run()
            BagDemo(grid).run()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    say(f"Done in {time.monotonic() - began:.0f} s; everything is stopped")


class GridDemo(Transcript):
    """The steps, each a method; the output is the output of a user's commands."""

    def run(self) -> None:
        """Run every step."""
        add_clusters(self._grid)
        silent = "SELECT count(*) FROM grid_clusters WHERE procs IS NULL"
        self._wait("all clusters say what they have", lambda: self._grid.sql(silent) == [(0,)])
        self._show("oargridctl", "clusters", "list")
        waiting = self._mapped()
        self._moved(waiting)
        self._together()
        self._evicting()
        self._refused()
        self._delete_local("west")

    def _mapped(self) -> int:
        """Fill the clusters with local jobs, and submit a job that waits where it ends first; return its number."""
        say("Local jobs fill all clusters. A job goes to the cluster where it will end first, and waits there")
        for name, minutes in (("north", 10), ("south", 60), ("west", 60)):
            self._fill(name, f"walltime=0:{minutes}:0")
        request = ("-l", "/core=2,walltime=0:30:0")
        self._show("oargridsub", "--dry-run", *request, "sleep 600")
        (job,) = self._submit(*request, "sleep 600")
        self._wait("the job waits on a cluster", lambda: self._state(job) == "Mapped")
        self._show("oargridstat", "--why", str(job))
        self._hold(self._clusters(job) == ["north"], f"the job is on {self._clusters(job)}")
        return job

    def _moved(self, job: int) -> None:
        """End a local job early: a pass moves the waiting one."""
        say("The local job of south ends early. A pass moves the one that waits: never are there two copies of it")
        self._delete_local("south")
        self._show_as_admin("oargridctl", "passes", "start")
        self._wait("the job runs", lambda: self._state(job) == "Running")
        self._show("oargridstat", "--moves", str(job))
        self._hold(self._clusters(job) == ["south"], f"the job is on {self._clusters(job)}")
        self._show("oargriddel", str(job))
        self._wait("the job is over", lambda: self._state(job) == "Error")

    def _together(self) -> None:
        """Start components together, on two clusters."""
        say("Two components of 4 processors begin at the same instant, on two clusters")
        self._delete_local("north")
        job = self._submit_components(2, "/core=4")
        self._wait("processors are held for it", lambda: self._state(job) == "Claimed")
        self._show("oargridstat", str(job))
        instants = self._begun(job, 2)
        write(f"begun at {', '.join(f'{instant:.3f}' for instant in instants)} s after the deadline\n")
        self._hold(max(instants) - min(instants) < 1, "the components did not begin within a second")
        self._show("oargridstat", "-l", str(job))
        self._end(job)

    def _evicting(self) -> None:
        """Let a best-effort job give way at the last try."""
        say("South is full of a best-effort job, which its owner lets give way: it is told why")
        besteffort = self._fill("south", _LONG, "-t", "besteffort")
        job = self._submit_components(2, "/core=4")
        self._begun(job, 2)
        self._show("oargridstat", "--why", str(job))
        printed = self._show("oarstat", "-f", "-j", str(besteffort), on="south")
        self._hold("Error" in printed, "the best-effort job has not ended")
        self._end(job)

    def _refused(self) -> None:
        """Name two clusters, one of which refuses: the other keeps nothing."""
        say("Parts on named clusters: west is too small for one of them, so none is reserved")
        parts = 'north:rdef="/core=2",west:rdef="/core=3"'
        done = self._show("oargridsub", "-w", "0:10:0", "-p", "date", parts, status=3)
        self._hold("west" in done, "west is not named as who refuses")
        left = self._grid.run("oarstat", "-u", self._grid.user.pw_name, on="north").stdout
        self._hold(not re.search(r"^\d", left, re.MULTILINE), f"something is left on north: {left}")

    def _submit_components(self, count: int, request: str) -> int:
        program = "date +%s.%N > begun.$OAR_GRID_JOB_ID.$OAR_GRID_COMPONENT; sleep 600"
        (job,) = self._submit(
            "--components", str(count), "-l", f"{request},walltime=0:20:0", "--deadline", f"+{DEADLINE}s", program
        )
        return job

    def _begun(self, job: int, components: int) -> list[float]:
        """Wait until components run, and return how long after the deadline each began, in seconds."""
        self._wait("the components run", lambda: self._state(job) in ("Running", "Missed", "Error"))
        self._hold(self._state(job) == "Running", f"job {job} is {self._state(job)}")
        files = [self._grid.home / f"begun.{job}.{number}" for number in range(components)]
        self._wait(
            "each says when it began", lambda: all(file.is_file() and file.read_text().strip() for file in files)
        )
        deadline = self._job(job)["deadline"]
        return [float(file.read_text()) - deadline for file in files]


def _account(names: tuple[str, ...]) -> pwd.struct_passwd:
    """Return the first of these users that the machine has."""
    for name in names:
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    raise OarpyError(f"none of the users {', '.join(names)} is there", hint="the demo needs two ordinary users")
