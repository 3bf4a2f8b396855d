"""Jobs of a user that measure a program before another job is planned: one job for each type of nodes."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace

from oarpy.admission.filters.filters import compile_filter, join_conditions
from oarpy.client.caller import current
from oarpy.model.errors import UsageError
from oarpy.model.node_types import ONE_TYPE, of_types
from oarpy.model.request import parse_request
from oarpy.model.submission import Submission
from oarpy.model.submission_checks import short
from oarpy.store.database import Connection
from oarpy.store.jobs import rates, submissions

_MOST_TYPES = 20
"""Types of nodes on which a program is measured for one job."""


@dataclass(frozen=True, slots=True)
class Measuring:
    """A job that measures a program on a type of nodes."""

    node_type: str
    requested: Submission


@dataclass(frozen=True, slots=True)
class Measurer:
    """What measures a program: a script of the user with its arguments, for ``limit`` seconds, in jobs of this name."""

    name: str
    script: str
    arguments: Sequence[str]
    limit: int


def measuring_job(
    connection: Connection, measurer: Measurer, requested: Submission, node_type: str, kind: str
) -> Measuring:
    """Return the job that measures on one core of a type of nodes that the job ``requested`` may have.

    ``node_type`` is the property that tells types of nodes apart. The job is of the same user, before the rules ran.
    """
    request = replace(parse_request("resource_id=1"), walltime=measurer.limit)
    filters = _filters(requested)
    condition = of_type(connection, node_type, kind)
    job = Submission(
        user=requested.user,
        groups=requested.groups,
        queue=requested.queue,
        project=requested.project,
        name=measurer.name,
        properties=join_conditions(requested.properties, *(filters if len(filters) == 1 else ()), condition),
        alternatives=(request,),
        command=shlex.join(["oarrates", "--measure", whole_path(measurer.script), *measurer.arguments]),
        directory=requested.directory,
        stdout=f"OAR.{measurer.name}.%jobid%.stdout",
        stderr=f"OAR.{measurer.name}.%jobid%.stderr",
        environment=requested.environment,
        submitted_from=requested.submitted_from,
        initial_request=requested.initial_request,
    )
    return Measuring(kind, job)


def node_types(connection: Connection, node_type: str, submission: Submission) -> list[str]:
    """Return the types of nodes on which a job may run."""
    if not node_type:
        return [ONE_TYPE]
    properties = submissions.properties(connection)
    texts = {join_conditions(submission.properties, text) for text in _filters(submission)}
    everywhere = "" in texts  # some group may have any resource
    conditions = [] if everywhere else [compile_filter(text, properties).sql for text in sorted(texts)]
    types = rates.node_types(connection, node_type, conditions)
    if not types:
        raise UsageError(
            f"no resource that the job may have has a {node_type}",
            hint="scheduler.node_type tells types of nodes apart",
        )
    if len(types) > _MOST_TYPES:
        raise UsageError(
            f"the job may run on {len(types)} types of nodes", hint=f"at most {_MOST_TYPES}: choose some by -p"
        )
    return types


def facts(name: str) -> tuple[int, int] | None:
    """Return size and date of a program that the caller may run, None if there is none."""
    return current().program_facts(name) if name else None


def require_program(option: str, name: str) -> None:
    """Raise :class:`UsageError` if the value of an option is no program that the caller may run."""
    if facts(name) is None:
        raise UsageError(
            f"{option} '{short(name)}' is no program", hint="name an executable file that is here: chmod +x"
        )


def whole_path(script: str) -> str:
    """Return the path of a script; a name without a slash is looked for by the shell of the node."""
    return os.path.normpath(os.path.join(current().directory(), script)) if "/" in script else script


def _filters(submission: Submission) -> set[str]:
    """Return the conditions of groups; empty for no condition."""
    return {group.filter for way in submission.alternatives for group in way.groups} or {""}


def of_type(connection: Connection, node_type: str, kind: str) -> str:
    """Return the condition on resources that they are of this type."""
    text = not node_type or submissions.properties(connection)[node_type] == "text"
    return of_types(node_type, [kind if text else int(kind)])
