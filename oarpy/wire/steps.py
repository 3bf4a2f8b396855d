"""The first message on a step's channel, which the step has for itself."""

from __future__ import annotations

from oarpy.wire.fields import environ, flag, optional, text, whole
from oarpy.wire.jobs import JobSpec
from oarpy.wire.structure import Structure, field

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

_lines = whole(1, (1 << 16) - 1)


class StepTerminal(Structure):
    """The terminal that a step gets: its type (``xterm``) and its size in characters."""

    type: str = field(text)
    rows: int = field(_lines)
    columns: int = field(_lines)


class StepSpec(Structure):
    """A step, described. ``job`` is the specification of its job for this node; paths are paths on the node.

    ``command`` is for the user's shell, empty for an interactive one. ``variables`` win over the job's variables.
    ``head`` says whether the node is the first of the job, where its script runs. ``lead``: it is the shell of an
    interactive job, which ends with it.
    """

    job: JobSpec = field(JobSpec.read)
    command: str = field(text)
    directory: str = field(text)
    variables: Mapping[str, str] = field(environ, default={})
    terminal: StepTerminal | None = field(optional(StepTerminal.read), default=None)
    head: bool = field(flag, default=True)
    lead: bool = field(flag, default=False)
