"""Ranks of a program in a running job, started from outside: by ``oarsrun`` of its first node, which a step runs."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from oarpy.client.caller import Caller
from oarpy.client.jobs import job_steps
from oarpy.client.jobs.job_steps import RunningJob
from oarpy.frontend.ranks.options import MOST
from oarpy.model.errors import UsageError
from oarpy.model.submission_checks import read_number


def checked(count: str | None, cores: str | None, on_node: str | None, flags: Sequence[str]) -> list[str] | None:
    """Return the options for ranks as the node takes them, None without ``-n``; raise :class:`UsageError`.

    >>> checked("4", None, "2", ["--overcommit"])
    ['-n', '4', '--ntasks-per-node', '2', '--overcommit']
    """
    given = {"-n": count, "--cpus-per-task": cores, "--ntasks-per-node": on_node}
    words: list[str] = []
    for option, text in given.items():
        if text is not None:
            words += [option, str(read_number(option, text, 1, MOST))]
    words += flags
    if count is None and words:
        raise UsageError(f"{words[0]} without -n", hint="oarsrun -n N COMMAND")
    return None if count is None else words


def run(
    caller: Caller, job: RunningJob, ranks: Sequence[str], command: Sequence[str], *, plain: bool, as_json: bool
) -> int:
    """Run the ranks, without input, and return the exit status. Raises as ``parallel_steps.run`` does."""
    if not command[0].strip():
        raise UsageError("no command", hint="oarsrun [-n N] COMMAND")
    form = [*(["--no-prefix"] if plain else []), *(["-J"] if as_json else [])]
    text = 'exec "$OARPY_NODE"/bin/oarsrun ' + shlex.join([*ranks, *form, "--", *command])
    with caller.attached() as streams, job_steps.steps_of(job) as steps:
        spec = job_steps.step_spec(job, job.nodes[0], text)
        return job_steps.exit_status(job_steps.relay(steps, steps.start(job.nodes[0], spec), streams, with_input=False))
