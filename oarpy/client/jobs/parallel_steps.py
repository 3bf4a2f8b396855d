"""One program on all nodes of a running job: where each runs, their output line by line, their ends."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from oarpy.client.caller import Streams
from oarpy.client.jobs import job_steps
from oarpy.client.jobs.job_steps import RunningJob
from oarpy.model.errors import UsageError
from oarpy.transport.node import NodeAddress
from oarpy.transport.steps import StepEnded, StepEvent, StepFailed, StepOutput, Steps
from oarpy.transport.wakeup import readable

_LONGEST_LINE = 1 << 16


@dataclass(frozen=True, slots=True)
class StepPlace:
    """The rank and the node of a process, and the label of its lines."""

    rank: int
    node: NodeAddress
    label: str


Write = Callable[[StepPlace, int, bytes], None]
"""Takes the output of a process on standard output (1) or standard error (2)."""


@dataclass(frozen=True, slots=True)
class StepOutcome:
    """The exit status of a process, as a shell gives it. ``error`` is the reason if it did not run, or was lost."""

    place: StepPlace
    status: int
    error: str = ""


def places(job: RunningJob) -> tuple[StepPlace, ...]:
    """Return one place on each node."""
    return tuple(StepPlace(rank, node, node.name) for rank, node in enumerate(job.nodes))


def run(job: RunningJob, where: Sequence[StepPlace], command: str, streams: Streams, write: Write) -> list[StepOutcome]:
    """Run ``command`` in all places at the same time, without input, and return how each ended, in order of rank.

    ``write`` gets whole lines of one process at a time (a longer one than 64 KiB in pieces), with the process's place.
    Raises the errors of ``streams`` when the caller interrupts or is gone; steps that still run then are ended.
    """
    if not command.strip():
        raise UsageError("no command", hint="oarsrun [-n N] COMMAND")
    with job_steps.steps_of(job) as steps:
        group = _Group(write)
        for place in where:
            variables = {"OAR_STEP_RANK": str(place.rank), "OAR_STEP_SIZE": str(len(where))}
            number = steps.start(place.node, job_steps.step_spec(job, place.node, command, variables=variables))
            steps.end_input(number)
            group.places[number] = place
        while len(group.outcomes) < len(where):
            _wait(steps, streams)
            for event in steps.events():
                group.take(event)
    return [group.outcomes[number] for number in sorted(group.outcomes)]


def worst(outcomes: Sequence[StepOutcome]) -> int:
    """Return the highest exit status."""
    return max((outcome.status for outcome in outcomes), default=0)


def _wait(steps: Steps, streams: Streams) -> None:
    heard = [] if streams.ended else [streams.fileno()]
    ready = readable([steps.fileno(), *heard])
    if not streams.ended and streams.fileno() in ready:
        streams.receive()  # raises when the caller is gone


@dataclass(slots=True)
class _Group:
    """The state of all processes so far: places, outcomes, and incomplete lines by process and stream."""

    write: Write
    places: dict[int, StepPlace] = field(default_factory=dict)
    outcomes: dict[int, StepOutcome] = field(default_factory=dict)
    _partial: dict[tuple[int, int], bytearray] = field(default_factory=dict)

    def take(self, event: StepEvent) -> None:
        """Take in an event."""
        if isinstance(event, StepOutput):
            self._partial.setdefault((event.step, event.stream), bytearray()).extend(event.data)
            self._pass_on(event.step, event.stream, whole=False)
        elif isinstance(event, StepEnded | StepFailed):
            for stream in (1, 2):
                self._pass_on(event.step, stream, whole=True)
            place = self.places[event.step]
            if isinstance(event, StepEnded):
                self.outcomes[event.step] = StepOutcome(place, job_steps.exit_status(event.status))
            else:
                error = job_steps.failure(event)
                self.outcomes[event.step] = StepOutcome(place, error.exit_status, str(error))

    def _pass_on(self, step: int, stream: int, *, whole: bool) -> None:
        """Write the complete lines, with ``whole`` the rest too: each write has lines of one process."""
        waiting = self._partial.get((step, stream), bytearray())
        end = waiting.rfind(b"\n") + 1
        if whole or len(waiting) - end > _LONGEST_LINE:
            end = len(waiting)
        if not end:
            return
        lines = bytes(waiting[:end])
        del waiting[:end]
        self.write(self.places[step], stream, lines)


def labelled(label: str, lines: bytes) -> bytes:
    """Return the lines, the last one completed, each behind a label and a colon.

    >>> labelled("n1", b"a\\n\\nb")
    b'n1: a\\nn1: \\nn1: b\\n'
    """
    prefix = f"{label}: ".encode()
    return b"".join(prefix + line + b"\n" for line in lines.removesuffix(b"\n").split(b"\n"))
