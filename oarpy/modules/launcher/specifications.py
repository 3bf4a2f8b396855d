"""From rows to what a node is told about a job."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from oarpy.configuration import Jobs
from oarpy.store.execution import LaunchRow
from oarpy.transport.jobspec import Checkpoint, JobSpec

DEFAULT_TYPE = "default"


def specification(row: LaunchRow, environment: Mapping[str, str], settings: Jobs) -> JobSpec:
    """Return the specification of a job that is to be started on the first of its nodes."""
    checkpoint = Checkpoint(int(row.checkpoint), row.checkpoint_signal) if row.checkpoint else None
    return JobSpec(
        job=row.id,
        attempt=row.attempt,
        user=row.user,
        command=row.command,
        directory=row.directory,
        stdout=_named(row.stdout, row),
        stderr=_named(row.stderr, row),
        walltime=max(int(row.walltime), 1),
        name=row.name,
        project=row.project,
        array_id=row.array_id,
        array_index=row.array_index,
        environment=dict(environment),
        nodes=tuple(_hosts(row.resources)),
        resources=tuple(map(_properties_line, row.resources)),
        login_shell=settings.login_shell,
        checkpoint=checkpoint,
        kill_grace=settings.kill_grace,
        allow_root=row.user == "root",
    )


def _hosts(resources: Iterable[Mapping[str, object]]) -> list[str]:
    """One line per resource of type default: a host is named once for each of its cores."""
    return [str(resource["network_address"]) for resource in resources if resource["type"] == DEFAULT_TYPE]


def _properties_line(resource: Mapping[str, object]) -> str:
    """Write a resource as OAR does: ``key = 'value' , key = 'value'``.

    >>> _properties_line({"core": 3, "host": "n1", "mem": None, "deploy": False})
    "core = '3' , deploy = 'NO' , host = 'n1'"
    """
    return " , ".join(f"{name} = '{_text(value)}'" for name, value in sorted(resource.items()) if value is not None)


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "YES" if value else "NO"
    return str(value).replace("\n", " ")


def _named(pattern: str, row: LaunchRow) -> str:
    """Replace OAR's ``%jobid%``, ``%jobname%``, and the array's ``%arrayid%``, ``%arrayindex%``."""
    for name, value in (
        ("%jobid%", row.id),
        ("%jobname%", row.name),
        ("%arrayid%", row.array_id),
        ("%arrayindex%", row.array_index),
    ):
        pattern = pattern.replace(name, str(value))
    return pattern
