"""Scripts of ``sh`` that run on a host of Slurm, each in one round trip.

Later actions are left to a process on that host, so that they happen without the broker: a *guard* ends a job that was
not committed, and the step of a claim waits for its date by the clock of its node.
"""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from hashlib import sha256
from math import ceil
from re import search
from shlex import join, quote

from oarpy.grid.calls.parts import GridPart, PartRequest
from oarpy.grid.calls.table import CallRefused, ClusterSilent
from oarpy.grid.clusters.door_channel import secured
from oarpy.grid.clusters.slurm.jobs import COLUMNS
from oarpy.grid.clusters.slurm.marks import PartMark

GRACE = 2
"""Seconds after its ttl when a part is ended; it is not committed in the last second before, nor later."""

_KEPT = '"$HOME"/.oarpy-claim-'
"""Where the program of a claim is kept until it begins: Slurm keeps scripts of batch jobs only."""

_SILENCE = ("Unable to contact slurm controller", "Socket timed out", "Zero Bytes", "Connection refused", "Munge")


class SlurmHost:
    """Runs scripts by the command ``words`` (``ssh HOST``; none: on this machine), each within ``seconds``."""

    def __init__(self, cluster: str, words: Sequence[str], seconds: float) -> None:
        self._cluster = cluster
        self._words = [*secured(words), "sh", "-s"]
        self._seconds = seconds

    def run(self, script: str) -> str:
        """Return the output of a script. Raise :class:`ClusterSilent` if it is unknown whether it was carried out."""
        try:
            done = subprocess.run(
                self._words,
                input=f"export SLURM_TIME_FORMAT=%s\n{script}",
                capture_output=True,
                text=True,
                timeout=self._seconds,
                check=False,
            )
        except (subprocess.TimeoutExpired, OSError) as error:
            raise ClusterSilent(f"cluster {self._cluster!r} does not answer: {error}") from error
        reason = done.stderr.strip().rpartition("\n")[2]
        if done.returncode == 255 or any(word in done.stderr for word in _SILENCE):
            raise ClusterSilent(f"cluster {self._cluster!r} does not answer: {reason}")
        if done.returncode:
            raise CallRefused(f"cluster {self._cluster!r} refuses: {reason or f'status {done.returncode}'}")
        return done.stdout


def size(request: PartRequest, walltime: float) -> list[str]:
    """Return the options of a request; their time limit is in whole minutes."""
    if request.properties or request.types:
        raise CallRefused("Slurm knows no properties and no types of jobs of OAR")
    options = [f"--ntasks={request.procs}", f"--time={ceil(walltime / 60)}"]
    if nodes := search(r"(?:nodes|host|network_address)=(\d+)", request.resources):
        options.append(f"--nodes={nodes[1]}")
    if request.queue:
        options.append(f"--partition={request.queue}")
    if request.project:
        options.append(f"--account={request.project}")
    return options


def listing(options: str = "--me --states=all") -> str:
    """Print the time, then jobs as :func:`~oarpy.grid.clusters.slurm.jobs.read_jobs` reads them."""
    return f"date +%s.%N\nexec squeue --noheader {options} -O {quote(COLUMNS)}\n"


def estimates(options: Sequence[Sequence[str]]) -> str:
    """Print for each request the output of ``sbatch --test-only``, on a line that begins with ``=``."""
    lines = (f"echo = $({join(['sbatch', '--test-only', *option, '--wrap=:'])} 2>&1)" for option in options)
    return "\n".join((*lines, ""))


def held_job(part: GridPart, mark: PartMark, ttl: float) -> str:
    """Submit a held job with its guard; print its id."""
    options = ["--parsable", "--hold", "--no-requeue", f"--comment={mark}", f"--job-name={part.job_name or part.name}"]
    options += size(part.request, part.request.walltime)
    directory = quote(part.directory) if part.directory else '"$HOME"'
    script = f"#!/bin/sh\n{_environment(part)}{_OWN_HOSTS}{_program(part)}"
    end = f"END_{sha256(script.encode()).hexdigest()}"
    return (
        f"job=$({join(['sbatch', *options])} --chdir={directory} <<'{end}'\n{script}\n{end}\n) || exit 3\n"
        f"job=${{job%%;*}}\n{_guard(ttl)}echo $job\n"
    )


def claimed_job(part: GridPart, mark: PartMark, walltime: float, ttl: float) -> str:
    """Allocate processors at once, with a guard, and keep the program in a file; print the job as listed."""
    options = ["--no-shell", "--immediate", f"--comment={mark}", f"--job-name={part.job_name or part.name}"]
    options += size(part.request, walltime)
    directory = quote(part.directory) if part.directory else '"$HOME"'
    program = f"{_environment(part)}cd {directory} && exec >slurm-$SLURM_JOB_ID.out 2>&1 || exit\n{_program(part)}"
    return (
        f'said=$({join(["salloc", *options])} 2>&1) || {{ echo "$said" >&2; exit 3; }}\n'
        'job=$(echo "$said" | sed -n "s/.*Granted job allocation //p")\n'
        f"umask 077; printf %s {quote(program)} >{_KEPT}$job\n"
        f"{_guard(ttl)}exec squeue --noheader --jobs=$job -O {quote(COLUMNS)}\n"
    )


def let_begin(job: int, mark: PartMark, hosts: Sequence[str]) -> str:
    """Commit a claim: its step waits for the date of the mark, runs the program, and reports how it ended."""
    step = f"srun --jobid={job} --overlap --nodes=1 --ntasks=1 --input=none --output=none sh -c"
    starter = (
        f'{step} {quote(_until_begin(job, mark, hosts))}"$(cat {_KEPT}{job})"\nstatus=$?\n'
        f"rm -f {_KEPT}{job}\n"
        f'[ "$(squeue --noheader --jobs={job} --format=%T)" = RUNNING ] || exit\n'
        f"begun=$(squeue --noheader --jobs={job} --format=%k)\n"
        "case $begun in *:begun:*)\n"
        f'scontrol update JobId={job} "Comment=${{begun%%:begun:*}}:ended:${{begun##*:begun:}}$status";; esac\n'
        f"scancel {job}\n"
    )
    return f"{set_mark(job, mark)}setsid sh -c {quote(starter)} </dev/null >/dev/null 2>&1 &\n"


def _until_begin(job: int, mark: PartMark, hosts: Sequence[str]) -> str:
    """Return the commands of a step before its program: it forgets that it is a step, and waits."""
    listed = quote("".join(f"{host}\n" for host in hosts))
    return (
        "for name in $(env | sed -n 's/^\\(SLURM_[A-Z_]*\\)=.*/\\1/p'); do\n"
        '  [ "$name" = SLURM_CONF ] || unset "$name"\ndone\n'
        f"export SLURM_JOB_ID={job} SLURM_JOBID={job} SLURM_OVERLAP=1\n"
        f'export OAR_GRID_NODEFILE=$(mktemp)\nprintf %s {listed} >"$OAR_GRID_NODEFILE"\n'
        f"sleep $(date +%s.%N | awk '{{ left = {mark.at:.3f} - $1; printf \"%.3f\", (left > 0) ? left : 0 }}')\n"
        f'scontrol update JobId={job} "Comment={mark.so_far("begun")}$(date +%s):"\n'
    )


def end_job(job: int, *marks: PartMark) -> str:
    """End a job, after its mark says why; leave an ended job as it is."""
    written = "".join(
        f"{join(['scontrol', 'update', f'JobId={job}', f'Comment={mark}'])} 2>/dev/null\n" for mark in marks
    )
    return f"{written}scancel --quiet {job}\nrm -f {_KEPT}{job}\n"


def set_mark(job: int, mark: PartMark, *others: str) -> str:
    """Write a mark, and change other things of a job with it; end the script if Slurm does not."""
    return f"{join(['scontrol', 'update', f'JobId={job}', f'Comment={mark}', *others])} || exit 3\n"


def tombstone(mark: PartMark) -> str:
    """Let Slurm remember a transaction that was aborted before anything was prepared: by a job that never runs."""
    submit = ["sbatch", "--parsable", "--hold", f"--comment={mark}", "--job-name=aborted", "--wrap=:"]
    return f"job=$({join(submit)}) || exit 3\nscancel ${{job%%;*}}\n"


def _guard(ttl: float) -> str:
    guard = (
        f"sleep {ttl + GRACE:.3f}\n"
        'case $(squeue --noheader --jobs="$1" --format=%k) in\n'
        f'*:prepared:*) scancel "$1"; rm -f {_KEPT}"$1";; esac\n'
    )
    return f"setsid sh -c {quote(guard)} guard $job </dev/null >/dev/null 2>&1 &\n"


def _environment(part: GridPart) -> str:
    environment: Mapping[str, str] = part.environment
    return "".join(f"export {name}={quote(value)}\n" for name, value in environment.items())


_OWN_HOSTS = """\
export OAR_GRID_NODEFILE=$(mktemp)
srun sh -c 'echo $SLURMD_NODENAME' >"$OAR_GRID_NODEFILE" 2>/dev/null
"""


def _program(part: GridPart) -> str:
    return f'sh -c {quote(part.program)}\nstatus=$?\nrm -f "$OAR_GRID_NODEFILE"\nexit $status\n'
