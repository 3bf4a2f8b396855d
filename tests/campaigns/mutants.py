"""Lines that were mended in the past, changed back one by one: the deterministic simulation is to find each.

``python -m tests.campaigns.mutants`` lays out a copy of the tree, puts one line back, runs seeds until one of them is
wrong, and prints which rule was broken at which seed. The line is mended again before the next.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.harness import bare_environment, virtual_time
from tests.harness.throwaway_server import own_server

ROOT = Path(__file__).resolve().parents[2]
SEEDS = 60
"""For each line, at most, by default."""
_WRONG = re.compile(r"seed (\d+): \w+ \d+ s (.+)")
_CAMPAIGN = (sys.executable, "-m", "tests.campaigns.deterministic", "--until-wrong")
_LAUNCHER = "oarpy/modules/launcher/"


@dataclass(frozen=True, slots=True)
class Mutant:
    """A change back: in the file of this path ``new`` takes the place of ``old``; ``commit`` had mended it."""

    what: str
    commit: str
    path: str
    old: str
    new: str

    def apply(self, text: str) -> str:
        """Return the text of the file with the change. Raises ``ValueError`` if it does not hold the line once."""
        if text.count(self.old) != 1:
            raise ValueError(f"{self.path} has this {text.count(self.old)} times, not once: {self.old}")
        return text.replace(self.old, self.new)


MUTANTS = (
    Mutant(
        "signals of jobs that are over stay open",
        "d6094ae5",
        _LAUNCHER + "running/orders.py",
        "        wanted = execution.signals(connection)\n",
        "        wanted = execution.signals(connection)\n        if not wanted:\n            return\n",
    ),
    Mutant(
        "walltimes of jobs that are over are to be told for ever",
        "d6094ae5",
        _LAUNCHER + "running/orders.py",
        "            walltime_changes.tell_no_more(connection)\n",
        "",
    ),
    Mutant(
        "a node that is lost and back while its job is cleaned up is not cleaned",
        "815ee782",
        _LAUNCHER + "settling.py",
        "{Cleaned: self.answered, Ready: self._back}",
        "{Cleaned: self.answered}",
    ),
    Mutant(
        "a new launcher takes nodes for lost that it has not reached yet",
        "19043cf5",
        _LAUNCHER + "settling.py",
        "if not channels.is_pending(node)}",
        "if not channels.is_connected(node)}",
    ),
    Mutant(
        "reports are dropped when the database goes away as they are recorded",
        "3b6a4dfa",
        _LAUNCHER + "recording.py",
        "            turn.ended += self._record(turn, arrivals)\n",
        "            said, self._unrecorded = self._unrecorded, []\n"
        "            turn.ended += self._record(turn, arrivals)\n"
        "            self._unrecorded = said\n",
    ),
    Mutant(
        "jobs stay on resources that were taken away",
        "44dd104e",
        "oarpy/modules/monitor.py",
        "withdrawn = nodes.kill_on_withdrawn(connection)",
        "withdrawn = 0",
    ),
    Mutant(
        "an idempotent job that was deleted is submitted again",
        "44dd104e",
        "oarpy/store/jobs/resubmission.py",
        "AND k.requested_by NOT IN ('metascheduler', 'monitor'))",
        "AND false)",
    ),
    Mutant(
        "what was to be launched on a lost node waits for it",
        "44dd104e",
        "oarpy/modules/monitor.py",
        "            requeueing.unplace(connection, self._timeout, led=led)\n",
        "",
    ),
    Mutant(
        "a job that lost a node other than its first stays",
        "44dd104e",
        "oarpy/modules/monitor.py",
        '                kills[job] = f"node {node} was lost"\n',
        "                continue\n",
    ),
    Mutant(
        "a job that its node could not start ends in Error",
        "a13104e7",
        _LAUNCHER + "endings.py",
        "return end_of_unable(report.key.job, report.detail or report.reason, now, again=again)",
        "return end_of_unable(report.key.job, report.detail or report.reason, now, again=False)",
    ),
    Mutant(
        "a node at fault is not taken back when it says that it can again",
        "a13104e7",
        _LAUNCHER + "recording.py",
        "    nodes.healed(connection, [node for node, problem in arrivals.checked.items() if not problem])\n",
        "",
    ),
    Mutant(
        "a start that a killed agent only claimed is not sent again",
        "e64ffb46",
        _LAUNCHER + "recording.py",
        "if job.state != CLAIMED and _is_current(job.key, current)]",
        "if _is_current(job.key, current)]",
    ),
    Mutant(
        "a node that lost its memory starts a job a second time",
        "25ea64df",
        _LAUNCHER + "starting.py",
        "channels.send(node, Start(tuple(specs), incarnation))",
        'channels.send(node, Start(tuple(specs), ""))',
    ),
    Mutant(
        "a job of which its node knows nothing any more runs for ever",
        "25ea64df",
        _LAUNCHER + "recording.py",
        "                    ends.setdefault(row.id, lost(row.id, now))\n",
        "                    continue\n",
    ),
    Mutant(
        "what a node runs of a job that is over is not ended",
        "25ea64df",
        _LAUNCHER + "recording.py",
        "                channels.send(node, Kill(tuple(stray), 0))\n",
        "                pass\n",
    ),
    Mutant(
        "reports about an earlier attempt count for the present one",
        "25ea64df",
        _LAUNCHER + "recording.py",
        "    return row is not None and row.attempt == key.attempt\n\n\ndef _is_to_start",
        "    return row is not None\n\n\ndef _is_to_start",
    ),
    Mutant(
        "nodes are not cleaned of jobs that ended while they were lost",
        "25ea64df",
        _LAUNCHER + "recording.py",
        "                channels.send(node, Clean(tuple(JobKey(*key) for key in dead)))\n",
        "                pass\n",
    ),
    Mutant(
        "a job on several nodes is closed though its other nodes are not clean",
        "a6f98147",
        _LAUNCHER + "endings.py",
        "    return by_itself and len(row.nodes) == 1\n",
        "    return by_itself\n",
    ),
    Mutant(
        "a job is suspended before its nodes have stopped it",
        "31a8b766",
        _LAUNCHER + "running/suspending.py",
        "if self._may_be_told(row) and self._is_done(row, channels)]",
        "if self._may_be_told(row) and (self._is_done(row, channels) or True)]",
    ),
    Mutant(
        "what a suspended job has is not looked for on its nodes",
        "31a8b766",
        "oarpy/store/jobs/execution.py",
        "_HAS = \"(upper_inf(a.during) OR a.suspended AND j.state IN ('Suspended', 'Resuming', 'Finishing'))\"",
        '_HAS = "upper_inf(a.during)"',
    ),
    Mutant(
        "a walltime that changed again meanwhile is taken for told",
        "4d14b4bf",
        "oarpy/store/jobs/walltime_changes.py",
        "      AND greatest(floor(extract(epoch FROM j.walltime)), 1) = t.seconds\n",
        "",
    ),
    Mutant(
        "nobody tells the launcher of a walltime that changed",
        "4d14b4bf",
        "oarpy/modules/automaton.py",
        '"walltime changed": ("metascheduler", "launcher"),',
        '"walltime changed": ("metascheduler",),',
    ),
    Mutant(
        "hosts that came with an extension are ASKED for the whole walltime",
        "69dfb823",
        "oarpy/store/accounting.py",
        "        FROM held WHERE NOT came_later\n",
        "        FROM held\n",
    ),
    Mutant(
        "parts of a second at the end of a job are not counted",
        "90028cb6",
        "oarpy/store/accounting.py",
        "extract(epoch FROM lower(stretch)) AS begin, extract(epoch FROM upper(stretch)) AS finish",
        "extract(epoch FROM lower(stretch)) AS begin, floor(extract(epoch FROM upper(stretch))) AS finish",
    ),
    Mutant(
        "requests for kills stay open when their jobs are over",
        "fe8393eb",
        "oarpy/store/jobs/execution.py",
        "    connection.execute(_SETTLE)\n",
        "",
    ),
    Mutant(
        "a resize that cannot be goes on as it was instead of taking back what it gave",
        "806fee3a",
        _LAUNCHER + "running/resizing.py",
        "            del self._progress[change.resize.id]  #",
        "            pass  #",
    ),
    Mutant(
        "a pass that was rolled back is remembered as if it had been written",
        "e012ff0b",
        "oarpy/modules/metascheduler/metascheduler.py",
        "            predictions = self._starts.tell(connection, snapshot, writing.changed)\n",
        "            self._reader.note_begun(begun, now)\n"
        "            predictions = self._starts.tell(connection, snapshot, writing.changed)\n",
    ),
    Mutant(
        "a suspended best-effort job goes on where the same pass starts another job",
        "63f03932",
        "oarpy/scheduler/rules/suspended_jobs.py",
        "    return tuple(sorted(due - late))\n",
        "    return tuple(sorted(due))\n",
    ),
)


def lay_out(target: Path) -> None:
    """Copy the tree as it is installed, and the tests, into a folder."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    places = {**project["tool"]["setuptools"]["package-dir"], "tests": "tests"}
    leave_out = shutil.ignore_patterns("__pycache__")
    for package, folder in places.items():
        shutil.copytree(ROOT / folder, target / package.replace(".", "/"), ignore=leave_out, dirs_exist_ok=True)


def hunt(tree: Path, mutant: Mutant, arguments: Sequence[str]) -> tuple[str, str]:
    """Put the line back, run seeds until one is wrong, and mend it; return the seed and what it said, or ""."""
    file = tree / mutant.path
    sound = file.read_text(encoding="utf-8")
    file.write_text(mutant.apply(sound), encoding="utf-8")
    try:
        done = subprocess.run(
            [*_CAMPAIGN, *arguments],
            cwd=tree,
            env={**os.environ, "PYTHONPATH": str(tree), "PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1"},
            capture_output=True,
            text=True,
            check=False,
        )
    finally:
        file.write_text(sound, encoding="utf-8")
    lines = done.stdout.splitlines()
    if wrong := [found for line in lines if (found := _WRONG.fullmatch(line))]:
        return wrong[0][1], wrong[0][2]
    if done.returncode:
        return str(1 + sum(line.startswith("seed ") for line in lines)), done.stderr.strip().splitlines()[-1]
    return "", ""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run all and print a table; exit status 1 if fewer than four of five were found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=SEEDS, help="for each line, at most")
    parser.add_argument("--jobs", type=int, default=1, help="how many seeds run at once")
    parser.add_argument("--first", type=int, default=1, help="place of the first line in the table")
    parser.add_argument("--lines", type=int, default=len(MUTANTS), help="how many")
    parser.add_argument("--only", default="", help="lines whose description has this in it")
    options = parser.parse_args(arguments)
    some = MUTANTS[options.first - 1 :][: options.lines]
    chosen = [one for one in some if options.only in one.what]
    found = 0
    print("| put back | mended by | seed | what it says |\n| --- | --- | ---: | --- |", flush=True)
    with tempfile.TemporaryDirectory(prefix="oarpy-mutants-") as folder, own_server() as server:
        lay_out(Path(folder))
        template = virtual_time.make_template(server)
        run = ("--seeds", str(options.seeds), "--jobs", str(options.jobs), "--server", server, "--template", template)
        for mutant in chosen:
            seed, wrong = hunt(Path(folder), mutant, run)
            found += bool(seed)
            print(f"| {mutant.what} | {mutant.commit} | {seed or '-'} | {wrong[:110] or 'not found'} |", flush=True)
    print(f"\n{found} of {len(chosen)} found, {options.seeds} seeds each at most")
    return 0 if 5 * found >= 4 * len(chosen) else 1


if __name__ == "__main__":
    bare_environment.enter()
    sys.exit(main())
