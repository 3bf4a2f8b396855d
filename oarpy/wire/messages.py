"""The one table of messages between the server and the agents of nodes: a class each, its fields saying what is valid.

A command goes from the server to an agent, a report from an agent to the server. A message travels as an object of its
fields and its word under ``type``. On the channel to an agent a line is one command. On the way back it is a list of
reports.
"""

from __future__ import annotations

import json

from oarpy.wire.fields import (
    bytes_used,
    count,
    each,
    event_or,
    flag,
    instant,
    lines,
    name,
    one_of,
    optional,
    quantity,
    remark,
    seconds,
    short,
    signal_number,
    text,
    token,
    whole,
)
from oarpy.wire.frames import Malformed
from oarpy.wire.jobs import JobKey, JobSpec, apart, job_key, job_keys, job_number, together
from oarpy.wire.lines import MAXIMUM_LINE
from oarpy.wire.structure import Structure, field, shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import ClassVar, TypeVar

    Kind = TypeVar("Kind", bound="Message")

PROLOGUE, EPILOGUE = "prologue", "epilogue"
OK, SKIPPED, FAILED, TIMEOUT, LOST = SCRIPT_OUTCOMES = ("ok", "skipped", "failed", "timeout", "lost")
"""Words for how a script ended; a reason that kept it from running is a word in capitals."""

CLAIMED = "claimed"
"""State of a job that an agent knows and that, as far as is known, was not started yet."""

UNFIT = "UNFIT"
"""The reason to refuse a job whose specification cannot be read or sent."""

APPLICATION_DONE = "application done"
"""The reason to end a job whose application gives its hosts back: it ends well, without a kill notice to its user."""

_MOST_BYTES = 8 << 20
"""The most bytes of a command about several jobs: an agent that reads more at once takes no other message meanwhile."""

_encode = json.JSONEncoder(check_circular=False, separators=(",", ":"), default=vars).encode


class Message(Structure):
    """A message, which travels under its word. A class without a word is a base of others."""

    WORD: ClassVar[str] = ""

    def __init_subclass__(cls, word: str = "") -> None:
        super().__init_subclass__()
        cls.WORD = word


class Command(Message):
    """A message from the server to an agent."""


class Start(Command, word="start"):
    """Start jobs; a (job, attempt) seen before is answered with its state and not run again.

    ``incarnation`` (from :class:`Ready`) is kept since the attempt was first sent. It fences off a node that was
    restarted or lost its state directory meanwhile; empty means no fence.
    """

    jobs: tuple[JobSpec, ...] = field(apart, write=together)
    incarnation: str = field(short, default="")

    def refusal(self, key: JobKey, detail: str) -> Report:
        """Return the report on a job that cannot be read or sent."""
        return Refused(key, UNFIT, detail)


class JobOrder(Command):
    """A command about jobs that the node has, or had."""

    jobs: tuple[JobKey, ...] = field(job_keys)


class Kill(JobOrder, word="kill"):
    """End jobs: TERM, then KILL after ``grace`` seconds (None: as their specification says).

    The job's users see ``reason``. Answered by :class:`Ended` in the end. A job that was never seen is remembered, so
    that a late start is refused. For a forgotten job the answer is :class:`Refused`.
    """

    grace: int | None = field(optional(whole()), default=None)
    reason: str = field(remark, default="")


class Terminate(JobOrder, word="terminate"):
    """Send TERM to the processes of jobs on a node that is not their first; :class:`Clean` follows."""


class Signal(JobOrder, word="signal"):
    """Send signal number ``signal`` to the processes of jobs."""

    signal: int = field(signal_number)


class Admit(JobOrder, word="admit"):
    """Let ``user`` into these jobs, which this node is called ``node`` in, with an SSH key; until :class:`Clean`."""

    user: str = field(name)
    public_key: str = field(text)
    node: str = field(name)


class Welcome(Command, word="welcome"):
    """Let the user of a job that runs log in on this node, into the job, until :class:`Clean` or :class:`Forget`.

    ``head``: its program is here; only while it runs.
    """

    job: JobSpec = field(JobSpec.read)
    head: bool = field(flag)


class Suspend(JobOrder, word="suspend"):
    """Stop the processes of jobs; their walltime stands still. Answered by :class:`Suspended`, also when they are."""


class Resume(JobOrder, word="resume"):
    """Continue suspended jobs; answered by :class:`Resumed`, also when they run."""


class ChangeWalltime(JobOrder, word="walltime"):
    """Give running jobs a walltime of ``seconds`` since their start; answered by :class:`WalltimeChanged`."""

    seconds: int = field(whole(1))


class Resize(JobOrder, word="resize"):
    """Have the files of these jobs of ``user`` on this node name other nodes and resources, each replaced by rename.

    ``order`` comes back with the answer, :class:`Resized`. With ``enters`` the node is new to the jobs: they may have
    processes here, even if :class:`Clean` had ended them before. ``gpus`` are then the jobs' own, as in a job's
    specification.
    """

    order: int = field(whole(1))
    user: str = field(name)
    nodes: tuple[str, ...] = field(lines)
    resources: tuple[str, ...] = field(lines)
    enters: bool = field(flag, default=False)
    gpus: tuple[int, ...] | None = field(optional(each(count)), default=None)


class Clean(JobOrder, word="clean"):
    """Kill -9 every process of the node that carries the mark of these jobs, whoever started it.

    ``grace`` seconds after TERM, which is sent now, unless :class:`Terminate` did. Answered by :class:`Cleaned`.
    """

    grace: int = field(whole(), default=0)


class Forget(JobOrder, word="forget"):
    """Remove the state of ended jobs: their outcome is recorded."""


class RunScript(Command, word="script"):
    """Run the site's ``program`` on this node for each job, once: ``kind`` is ``prologue`` or ``epilogue``.

    It runs as the agent's user, at most ``timeout`` seconds. Its arguments are the job's id, its user, its node file,
    and for a prologue its walltime in seconds. With ``after_prologue`` it runs only where a prologue was begun.
    Answered by :class:`ScriptEnded`, again and again the same until :class:`Release`.
    """

    kind: str = field(one_of(PROLOGUE, EPILOGUE))
    program: str = field(name)
    timeout: float = field(seconds)
    jobs: tuple[JobSpec, ...] = field(apart, write=together)
    after_prologue: bool = field(flag, default=False)

    def refusal(self, key: JobKey, detail: str) -> Report:
        """Return the report on a job that cannot be read or sent."""
        return ScriptEnded(key, self.kind, UNFIT, detail)


class RunLaunchers(Command, word="launcher"):
    """Run the programs that speak for applications, each once at a time: one that runs here already is left alone.

    The attempt of each is 0. ``oarnegotiate`` carries the program's standard output to the server, and the server's
    messages to its standard input. Answered by :class:`LauncherEnded` when it is over.
    """

    jobs: tuple[JobSpec, ...] = field(apart, write=together)

    def refusal(self, key: JobKey, detail: str) -> Report:
        """Return the report on a job that cannot be read or sent."""
        return LauncherEnded(key, detail)


class Release(JobOrder, word="release"):
    """Forget the records of the scripts of these jobs: they are in the database."""


class Ping(Command, word="ping"):
    """Ask for a :class:`Pong` with the same token."""

    token: str = field(short)


class Check(Command, word="check"):
    """Ask a node whether it can start jobs; answered by :class:`Checked`."""


class Recall(Command, word="recall"):
    """Ask which jobs were here from ``since`` (seconds since the epoch) on; answered by :class:`Recalled`.

    A server whose database was restored asks that.
    """

    since: float = field(instant)


class TellLoad(Command, word="load"):
    """Ask a node how loaded it is; answered by :class:`Load`."""


class TellGpus(Command, word="gpus"):
    """Ask a node how many graphics processors it has; answered by :class:`Gpus`."""


class CheckHealth(Command, word="health"):
    """Have a node run the site's ``program``, which succeeds where the node is fit for jobs, for ``timeout`` seconds.

    Answered by :class:`Health`, unless one runs already. With an empty program the node forgets what one has found.
    """

    program: str = field(text)
    timeout: float = field(seconds, default=0.0)


class MeasureGpus(Command, word="gpu use"):
    """Ask a node how busy GPUs are, by their numbers there; answered by :class:`GpuUse`, unless it measures already."""

    gpus: tuple[int, ...] = field(each(count))


class JobReport(Structure):
    """A job the agent knows: ``state`` is claimed (not started yet), running, suspended or ended."""

    key: JobKey = field(job_key)
    state: str = field(remark)


class RecalledJob(Structure):
    """A node's memory of a job: ``user`` and ``start`` are unknown if it never began, the rest if it is not over.

    ``resources`` counts the resources on all its nodes; ``status`` and ``reason`` are as in :class:`Ended`.
    """

    key: JobKey = field(job_key)
    user: str = field(remark, default="")
    resources: int = field(count, default=0)
    start: float | None = field(optional(instant), default=None)
    end: float | None = field(optional(instant), default=None)
    status: int | None = field(optional(count), default=None)
    reason: str = field(remark, default="")


class Report(Message):
    """A message from an agent to the server."""


class Ready(Report, word="ready"):
    """The channel is open. Started and Ended of all the jobs in ``jobs`` follow at once.

    ``pid`` is the agent's process, ``clock`` the node's time in seconds since the epoch. ``boot_id`` is the kernel's
    name for this boot; ``incarnation`` changes with it, and when the node loses its state directory. ``highest`` is the
    highest number of a job that was ever here, as far as it is remembered.
    """

    pid: int = field(count)
    boot_id: str = field(remark)
    incarnation: str = field(remark)
    clock: float = field(instant)
    jobs: tuple[JobReport, ...] = field(each(JobReport.read))
    highest: int = field(job_number, default=0)


class Started(Report, word="started"):
    """The command is about to be executed; ``start`` in seconds since the epoch. May come more than once."""

    key: JobKey = field(job_key)
    start: float = field(instant)


class Suspended(Report, word="suspended"):
    """All processes of the job were stopped at ``at`` (seconds since the epoch)."""

    key: JobKey = field(job_key)
    at: float = field(instant)


class Resumed(Report, word="resumed"):
    """The job goes on since ``at`` (seconds since the epoch)."""

    key: JobKey = field(job_key)
    at: float = field(instant)


class Checkpointed(Report, word="checkpoint"):
    """The first node sent its checkpoint signal to the job at ``at`` (seconds since the epoch), before its walltime.

    Comes for jobs with other nodes, perhaps more than once.
    """

    key: JobKey = field(job_key)
    at: float = field(instant)


class WalltimeChanged(Report, word="walltime"):
    """The job is going to be ended ``seconds`` after its start: its supervisor will find the order, whatever dies."""

    key: JobKey = field(job_key)
    seconds: int = field(count)


class Resized(Report, word="resized"):
    """The files of the job are as ``order`` wanted; or the job is over here, and has none.

    ``detail``: why they are not.
    """

    key: JobKey = field(job_key)
    order: int = field(whole(1))
    detail: str = field(remark, default="")


class Ended(Report, word="ended"):
    """The job is over and no process of it is left on this node, except ``left`` that cannot be killed.

    ``status`` is the raw wait status of the command, None when it never ran or its end was not seen. ``reason``:
    exited, killed, walltime, lost (its supervisor was killed), or the reason why the command did not run:
    WORKING_DIRECTORY, OUTPUT_FILES, USER_SHELL, PAM, DEVICES, PRIVATE_DIRECTORIES, SUPERVISOR. ``by_node``: the command
    never ran, and another node may be able to run it. ``memory_kills`` counts the processes that the kernel killed
    because the job was out of its memory. ``cpu_seconds`` is the user and system time of its processes on this node,
    ``memory_peak`` the most bytes that they had; None when it was not measured. May come more than once.
    """

    key: JobKey = field(job_key)
    status: int | None = field(optional(count))
    reason: str = field(event_or("exited", "killed", "walltime", "lost"))
    start: float | None = field(optional(instant))
    end: float = field(instant)
    detail: str = field(remark, default="")
    left: int = field(count, default=0)
    memory_kills: int = field(count, default=0)
    cpu_seconds: float | None = field(optional(quantity), default=None)
    memory_peak: int | None = field(optional(bytes_used), default=None)
    by_node: bool = field(flag, default=False)


class Stuck(Report, word="stuck"):
    """A process that looks after a job on this node hangs, and why. ``place`` is the path that does not answer, if any.

    The node is unfit until :class:`Checked` says otherwise. :class:`Ended` follows when the job can be ended.
    """

    key: JobKey = field(job_key)
    detail: str = field(remark)
    place: str = field(remark, default="")


class Refused(Report, word="refused"):
    """The job was not started and this node keeps nothing of it.

    ``reason``: NO_SUCH_USER, NOT_PERMITTED, START_DEADLINE, UNFIT, INCARNATION, FORGOTTEN, STATE_DIRECTORY, SUPERVISOR.
    """

    key: JobKey = field(job_key)
    reason: str = field(event_or())
    detail: str = field(remark)


class Cleaned(Report, word="cleaned"):
    """Answer to :class:`Clean`: how many processes were killed, how many resist.

    The other fields are as in Ended. Where the program of the job ran, Ended has its use.
    """

    key: JobKey = field(job_key)
    killed: int = field(count)
    left: int = field(count)
    memory_kills: int = field(count, default=0)
    cpu_seconds: float | None = field(optional(quantity), default=None)
    memory_peak: int | None = field(optional(bytes_used), default=None)


class ScriptEnded(Report, word="scripted"):
    """Answer to :class:`RunScript`.

    ``outcome`` is ok, skipped (there is nothing to run), failed, timeout or lost (its end was not seen).
    STATE_DIRECTORY and SUPERVISOR mean that the node could not run it; any other word is a fault of the job. ``detail``
    is for people.
    """

    key: JobKey = field(job_key)
    kind: str = field(one_of(PROLOGUE, EPILOGUE))
    outcome: str = field(event_or(*SCRIPT_OUTCOMES))
    detail: str = field(remark)


class LauncherEnded(Report, word="launcher"):
    """No program on this node speaks for an application any more; ``detail`` says what went wrong, for people."""

    key: JobKey = field(job_key)
    detail: str = field(remark)


class Pong(Report, word="pong"):
    """Answer to :class:`Ping`; ``clock`` is the node's time in seconds since the epoch."""

    token: str = field(short)
    clock: float = field(instant)


class Checked(Report, word="checked"):
    """Answer to :class:`Check`: the node's problem, empty when it can start jobs."""

    problem: str = field(remark)


class Recalled(Report, word="recalled"):
    """Answer to :class:`Recall`: the jobs that are here, and the remembered jobs that are over."""

    jobs: tuple[RecalledJob, ...] = field(each(RecalledJob.read))


class Load(Report, word="load"):
    """Answer to :class:`TellLoad`: the load average over one minute, available memory in MiB, seconds of uptime."""

    average: float = field(quantity)
    available_memory: int = field(count)
    uptime: int = field(count)


class Gpus(Report, word="gpus"):
    """Answer to :class:`TellGpus`: the number of graphics processors that compute."""

    number: int = field(count)


class MeasuredGpu(Structure):
    """A graphics processor, by its number on the node; None for a figure that its driver does not report.

    ``busy`` is the percentage of the driver's last period in which it computed. ``memory`` are the bytes in use,
    ``memory_total`` all that it has.
    """

    number: int = field(count)
    busy: int | None = field(optional(whole(0, 100)))
    memory: int | None = field(optional(bytes_used))
    memory_total: int | None = field(optional(bytes_used))


class GpuUse(Report, word="gpu use"):
    """Answer to :class:`MeasureGpus`: the GPUs with a figure from their driver."""

    gpus: tuple[MeasuredGpu, ...] = field(each(MeasuredGpu.read))


class Health(Report, word="health"):
    """Answer to :class:`CheckHealth`: the words of a check that failed, empty for one that succeeded.

    :class:`Checked` says the same until one succeeds.
    """

    problem: str = field(remark)


class Knocked(Report, word="knock"):
    """A command on the node wants to be connected to the gateway; it listens there under ``token``."""

    token: str = field(token)


class AgentError(Report, word="error"):
    """The agent could not act on a message, or could not begin."""

    detail: str = field(remark)


class ChannelLost(Report):
    """The channel is not there (any more): nothing more arrives from this node until it is connected again.

    No agent says so; the server's end of the channel does.
    """

    reason: str = field(remark)


_COMMANDS = (*Command.__subclasses__(), *JobOrder.__subclasses__())
COMMANDS: dict[str, type[Command]] = {kind.WORD: kind for kind in _COMMANDS if kind.WORD}
REPORTS: dict[str, type[Report]] = {kind.WORD: kind for kind in Report.__subclasses__() if kind.WORD}


def encode_command(command: Command) -> bytes:
    """Return the line for a command."""
    return _encode({"type": command.WORD, **command.entry()}).encode() + b"\n"


def command_lines(command: Command) -> tuple[list[bytes], list[Report]]:
    """Return the lines for a command, and the answers for jobs whose specification no line can hold.

    Specifications that are too large together go one after the other.
    """
    line = encode_command(command)
    if len(line) <= _MOST_BYTES or not isinstance(command, (Start, RunScript, RunLaunchers)):
        return [line], []
    if len(command.jobs) == 1:
        if len(line) <= MAXIMUM_LINE:
            return [line], []
        return [], [command.refusal(command.jobs[0].key, f"its specification has {len(line)} bytes")]
    middle = len(command.jobs) // 2
    halves = [command_lines(command.replace(jobs=jobs)) for jobs in (command.jobs[:middle], command.jobs[middle:])]
    return halves[0][0] + halves[1][0], halves[0][1] + halves[1][1]


def encode_reports(reports: Iterable[Report]) -> bytes:
    """Return the line for reports."""
    return _encode([{"type": report.WORD, **report.entry()} for report in reports]).encode() + b"\n"


def decode_command(line: bytes) -> Command:
    """Return the command on a line; raise :class:`Malformed` when there is none."""
    return _decode(_parse(line), COMMANDS)


def decode_reports(line: bytes) -> list[Report]:
    """Return the reports on a line; raise :class:`Malformed` for an entry that is no report."""
    content = _parse(line)
    return [_decode(entry, REPORTS) for entry in (content if isinstance(content, list) else [content])]


def _parse(line: bytes) -> object:
    try:
        return json.loads(line)
    except (ValueError, RecursionError) as error:
        raise Malformed(f"not JSON ({type(error).__name__}): {line[:80]!r}") from None


def _decode(entry: object, table: dict[str, type[Kind]]) -> Kind:
    word = entry.pop("type", None) if isinstance(entry, dict) else None
    kind = table.get(word) if isinstance(word, str) else None
    if kind is None:
        raise Malformed(f"no message of a known type: {shown(word)}")
    try:
        return kind.read(entry)
    except Malformed as error:
        raise Malformed(f"{word}: {error}") from None
