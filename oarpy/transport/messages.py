"""The messages between server and node agents, and their form on the channel: JSON lines, several messages a line."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from oarpy.frontend.call import is_token
from oarpy.model.errors import OarpyError
from oarpy.transport.jobspec import JobKey, JobSpec

PROLOGUE, EPILOGUE = "prologue", "epilogue"
OK, SKIPPED, FAILED, TIMEOUT, LOST = SCRIPT_OUTCOMES = ("ok", "skipped", "failed", "timeout", "lost")
"""Words for how a script ended; what kept it from running has a word in capitals."""


class BadMessage(OarpyError):
    """What arrived is not a message of this protocol."""

    code = "bad_message"


@dataclass(frozen=True, slots=True)
class Start:
    """Start jobs; a (job, attempt) seen before is answered with its state and not run again.

    ``incarnation`` (from :class:`Ready`, kept since the attempt was first sent) fences off a node that was
    restarted or lost its state directory meanwhile; empty means no fence.
    """

    jobs: tuple[JobSpec, ...]
    incarnation: str = ""


@dataclass(frozen=True, slots=True)
class Kill:
    """End jobs: TERM, then KILL after ``grace`` seconds (None: as their specification says).

    Answered by :class:`Ended` in the end; a job never seen is remembered, so that a late start is refused.
    """

    jobs: tuple[JobKey, ...]
    grace: int | None = None


@dataclass(frozen=True, slots=True)
class Signal:
    """Send signal number ``signal`` to the processes of jobs."""

    jobs: tuple[JobKey, ...]
    signal: int


@dataclass(frozen=True, slots=True)
class Suspend:
    """Stop the processes of jobs; their walltime stands still. Answered by :class:`Suspended`, also when they are."""

    jobs: tuple[JobKey, ...]


@dataclass(frozen=True, slots=True)
class Resume:
    """Continue suspended jobs; answered by :class:`Resumed`, also when they run."""

    jobs: tuple[JobKey, ...]


@dataclass(frozen=True, slots=True)
class ChangeWalltime:
    """Give running jobs a walltime of ``seconds`` since their start; answered by :class:`WalltimeChanged`."""

    jobs: tuple[JobKey, ...]
    seconds: int


@dataclass(frozen=True, slots=True)
class Terminate:
    """Send TERM to what jobs have on a node that is not their first one; :class:`Clean` follows."""

    jobs: tuple[JobKey, ...]


@dataclass(frozen=True, slots=True)
class Clean:
    """Kill -9 every process of the node that carries the mark of these jobs, whoever started it.

    ``grace`` seconds after TERM; that is sent now, unless :class:`Terminate` did.
    """

    jobs: tuple[JobKey, ...]
    grace: int = 0


@dataclass(frozen=True, slots=True)
class Forget:
    """Remove the state of ended jobs: their outcome is recorded."""

    jobs: tuple[JobKey, ...]


@dataclass(frozen=True, slots=True)
class Query:
    """Ask for the state of jobs; answered by Started, Ended or Unknown (nothing while one is just being started)."""

    jobs: tuple[JobKey, ...]


@dataclass(frozen=True, slots=True)
class Ping:
    """Ask for a :class:`Pong` with the same token."""

    token: str


@dataclass(frozen=True, slots=True)
class RunScript:
    """Run the site's ``program`` on this node for each job, once: ``kind`` is ``prologue`` or ``epilogue``.

    It runs as the agent's user, at most ``timeout`` seconds; arguments: the job's id, its user, its node file, and for
    a prologue its walltime in seconds. With ``after_prologue`` it runs only where a prologue was begun. Answered by
    :class:`ScriptEnded`, again and again the same until :class:`Release`.
    """

    kind: str
    program: str
    timeout: float
    jobs: tuple[JobSpec, ...]
    after_prologue: bool = False


@dataclass(frozen=True, slots=True)
class Release:
    """Forget what is known of the scripts of these jobs: it is recorded."""

    jobs: tuple[JobKey, ...]


@dataclass(frozen=True, slots=True)
class Check:
    """Ask a node whether it can start jobs; answered by :class:`Checked`."""


Command = (
    Start
    | Kill
    | Terminate
    | Signal
    | Suspend
    | Resume
    | ChangeWalltime
    | Clean
    | Forget
    | Query
    | Ping
    | Check
    | RunScript
    | Release
)


@dataclass(frozen=True, slots=True)
class JobReport:
    """A job the agent knows: ``state`` is claimed (not started yet), running, suspended or ended."""

    key: JobKey
    state: str


@dataclass(frozen=True, slots=True)
class Ready:
    """The channel is open. Started and Ended of all the jobs in ``jobs`` follow at once."""

    version: int
    pid: int
    uid: int
    host: str
    boot_id: str
    incarnation: str
    python: str
    clock: float
    jobs: tuple[JobReport, ...]


@dataclass(frozen=True, slots=True)
class Started:
    """The command is about to be executed; ``start`` in seconds since the epoch. May come more than once."""

    key: JobKey
    start: float


@dataclass(frozen=True, slots=True)
class Suspended:
    """All processes of the job were stopped at ``at`` (seconds since the epoch)."""

    key: JobKey
    at: float


@dataclass(frozen=True, slots=True)
class Checkpointed:
    """The first node sent its checkpoint signal to the job at ``at`` (seconds since the epoch), before its walltime.

    Comes for jobs with other nodes, perhaps more than once.
    """

    key: JobKey
    at: float


@dataclass(frozen=True, slots=True)
class Resumed:
    """The job goes on since ``at`` (seconds since the epoch)."""

    key: JobKey
    at: float


@dataclass(frozen=True, slots=True)
class WalltimeChanged:
    """The job is going to be ended ``seconds`` after its start: its supervisor will find the order, whatever dies."""

    key: JobKey
    seconds: int


@dataclass(frozen=True, slots=True)
class Ended:
    """The job is over and no process of it is left on this node, except ``left`` that cannot be killed.

    ``status`` is the raw wait status of the command, None when it never ran or nobody saw it end. ``reason``:
    exited, killed, walltime, lost (its supervisor was killed), or what kept the command from running:
    WORKING_DIRECTORY, OUTPUT_FILES, USER_SHELL, CANNOT_WRITE_NODE_FILE, SUPERVISOR. ``memory_kills`` counts the
    processes that the kernel killed because the job was out of its memory. May come more than once.
    """

    key: JobKey
    status: int | None
    reason: str
    start: float | None
    end: float
    detail: str = ""
    left: int = 0
    memory_kills: int = 0


@dataclass(frozen=True, slots=True)
class Refused:
    """The job was not started and this node keeps nothing of it.

    ``reason``: NO_SUCH_USER, NOT_PERMITTED, START_DEADLINE, INCARNATION, FORGOTTEN, STATE_DIRECTORY, SUPERVISOR.
    """

    key: JobKey
    reason: str
    detail: str


@dataclass(frozen=True, slots=True)
class Unknown:
    """The node has no state of this job (never seen, or forgotten)."""

    key: JobKey


@dataclass(frozen=True, slots=True)
class Signalled:
    """Answer to :class:`Signal`: ``taken`` is False when the job does not run here."""

    key: JobKey
    signal: int
    taken: bool


@dataclass(frozen=True, slots=True)
class Cleaned:
    """Answer to :class:`Clean`: how many processes were killed, how many resist; ``memory_kills`` as of Ended."""

    key: JobKey
    killed: int
    left: int
    memory_kills: int = 0


@dataclass(frozen=True, slots=True)
class Pong:
    """Answer to :class:`Ping`; ``clock`` is the node's time in seconds since the epoch."""

    token: str
    clock: float


@dataclass(frozen=True, slots=True)
class Checked:
    """Answer to :class:`Check`: what the node cannot do, empty when it can start jobs."""

    problem: str


@dataclass(frozen=True, slots=True)
class ScriptEnded:
    """Answer to :class:`RunScript`.

    ``outcome``: ok, skipped (there is nothing to run), failed, timeout, lost (nobody saw it end), STATE_DIRECTORY or
    SUPERVISOR (the node could not run it), or another word for what is wrong with the job. ``detail`` is for people.
    """

    key: JobKey
    kind: str
    outcome: str
    detail: str


@dataclass(frozen=True, slots=True)
class Knocked:
    """A command on the node wants to be connected to the gateway; it listens there under ``token``."""

    token: str


@dataclass(frozen=True, slots=True)
class AgentError:
    """The agent could not act on a message, or could not begin."""

    detail: str


@dataclass(frozen=True, slots=True)
class ChannelLost:
    """The channel is not there (any more): nothing more arrives from this node until it is connected again."""

    reason: str


Report = (
    Ready
    | Started
    | Suspended
    | Checkpointed
    | Resumed
    | WalltimeChanged
    | Ended
    | Refused
    | Unknown
    | Signalled
    | Cleaned
    | Pong
    | Checked
    | ScriptEnded
    | Knocked
    | AgentError
    | ChannelLost
)

_WORDS: dict[type, str] = {
    Kill: "kill",
    Terminate: "terminate",
    Signal: "signal",
    Suspend: "suspend",
    Resume: "resume",
    ChangeWalltime: "walltime",
    Clean: "clean",
    Forget: "forget",
    Query: "query",
    Release: "release",
}


_encode = json.JSONEncoder(separators=(",", ":")).encode


def encode_command(command: Command) -> bytes:
    """The line for a command."""
    body: dict[str, object]
    if isinstance(command, Start):
        body = {"type": "start", "incarnation": command.incarnation, **_sharing(command.jobs)}
    elif isinstance(command, RunScript):
        body = {name: getattr(command, name) for name in ("kind", "program", "timeout", "after_prologue")}
        body |= {"type": "script", **_sharing(command.jobs)}
    elif isinstance(command, Ping):
        body = {"type": "ping", "token": command.token}
    elif isinstance(command, Check):
        body = {"type": "check"}
    else:
        body = {"type": _WORDS[type(command)], "jobs": command.jobs}
        if isinstance(command, Kill | Clean) and command.grace is not None:
            body["grace"] = command.grace
        elif isinstance(command, Signal):
            body["signal"] = command.signal
        elif isinstance(command, ChangeWalltime):
            body["seconds"] = command.seconds
    return _encode(body).encode() + b"\n"


def _sharing(specs: Sequence[JobSpec]) -> dict[str, object]:
    """What all jobs have in common (the environment of an array, say) is sent once."""
    jobs = [job.to_json() for job in specs]
    shared: dict[str, object] = {}
    if len(jobs) > 1:
        shared = jobs[0]
        for job in jobs[1:]:
            shared = {name: value for name, value in shared.items() if job[name] == value}
        jobs = [{name: value for name, value in job.items() if name not in shared} for job in jobs]
    return {"shared": shared, "jobs": jobs}


def decode_reports(line: bytes) -> list[Report]:
    """The messages on a line from an agent; raise :class:`BadMessage` when it is malformed."""
    try:
        content = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise BadMessage(f"the agent sent what is not JSON: {line[:80]!r}") from error
    if not isinstance(content, list):
        content = [content]
    return [_decode(entry) for entry in content]


def _decode(entry: object) -> Report:
    if not isinstance(entry, dict):
        raise BadMessage(f"the agent sent a message that is not an object: {str(entry)[:80]!r}")
    decode = _DECODERS.get(entry.get("type", "")) if isinstance(entry.get("type"), str) else None
    if decode is None:
        raise BadMessage(f"the agent sent a message of unknown type {str(entry.get('type'))[:80]!r}")
    try:
        return decode(entry)
    except (KeyError, TypeError, ValueError) as error:
        raise BadMessage(f"the agent sent a malformed '{entry['type']}': {error}") from error


_Entry = dict[str, object]
_Value = TypeVar("_Value")

MAXIMUM_JOB = (1 << 47) - 1
MAXIMUM_ATTEMPT = (1 << 16) - 1
_INT_MAXIMUM = (1 << 31) - 1
_UID_MAXIMUM = (1 << 32) - 1
_LATEST = 253_402_300_800.0
_LONGEST_TEXT = 4096
_ENDS = frozenset({"exited", "killed", "walltime", "lost"})
_WORD = re.compile(r"[A-Z][A-Z0-9_]{0,63}")

# A node is not trusted further than its own jobs: what it says ends up in the database, which must be able to hold it.


def _get(entry: _Entry, name: str, kind: type[_Value]) -> _Value:
    value = entry[name]
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise TypeError(f"'{name}' is {str(value)[:40]!r}")
    return value


def _number(entry: _Entry, name: str, most: int = _INT_MAXIMUM) -> int:
    value = _get(entry, name, int)
    if not 0 <= value <= most:
        raise ValueError(f"'{name}' is out of range")
    return value


def _time(entry: _Entry, name: str) -> float:
    """Read an instant in seconds since the epoch, before the year 10000."""
    value = entry[name]
    if type(value) not in (int, float) or not 0 <= value < _LATEST:  # type: ignore[operator]
        raise ValueError(f"'{name}' is not an instant")
    return float(value)  # type: ignore[arg-type]


def _text(entry: _Entry, name: str) -> str:
    """Read a text, cut and without what the database cannot hold."""
    return _get(entry, name, str)[:_LONGEST_TEXT].replace("\0", "").encode(errors="replace").decode()


def _reason(entry: _Entry) -> str:
    """Read a reason word: its form is that of an event's type, unless it is the way in which a job ended."""
    value = _get(entry, "reason", str)
    if value not in _ENDS and not _WORD.fullmatch(value):
        raise ValueError(f"'reason' is {value[:40]!r}")
    return value


def _key(entry: _Entry) -> JobKey:
    return JobKey(_number(entry, "job", MAXIMUM_JOB), _number(entry, "attempt", MAXIMUM_ATTEMPT))


def _reports(values: Iterable[object]) -> tuple[JobReport, ...]:
    result = []
    for value in values:
        if not isinstance(value, dict):
            raise TypeError("'jobs' holds what is not an object")
        result.append(JobReport(_key(value), _text(value, "state")))
    return tuple(result)


def _ready(entry: _Entry) -> Ready:
    return Ready(
        version=_number(entry, "version"),
        pid=_number(entry, "pid"),
        uid=_number(entry, "uid", _UID_MAXIMUM),
        host=_text(entry, "host"),
        boot_id=_text(entry, "boot_id"),
        incarnation=_text(entry, "incarnation"),
        python=_text(entry, "python"),
        clock=_time(entry, "clock"),
        jobs=_reports(_get(entry, "jobs", list)),
    )


def _memory_kills(entry: _Entry) -> int:
    """Read a count that records of earlier versions do not have."""
    return 0 if entry.get("memory_kills") is None else _number(entry, "memory_kills")


def _ended(entry: _Entry) -> Ended:
    return Ended(
        _key(entry),
        status=None if entry["status"] is None else _number(entry, "status"),
        reason=_reason(entry),
        start=None if entry["start"] is None else _time(entry, "start"),
        end=_time(entry, "end"),
        detail=_text(entry, "detail"),
        left=_number(entry, "left"),
        memory_kills=_memory_kills(entry),
    )


def _scripted(entry: _Entry) -> ScriptEnded:
    kind, outcome = _get(entry, "kind", str), _get(entry, "outcome", str)
    if kind not in (PROLOGUE, EPILOGUE) or (outcome not in SCRIPT_OUTCOMES and not _WORD.fullmatch(outcome)):
        raise ValueError("'kind' or 'outcome' is not a known word")
    return ScriptEnded(_key(entry), kind, outcome, _text(entry, "detail"))


def _knocked(entry: _Entry) -> Knocked:
    token = _get(entry, "token", str)
    if not is_token(token):
        raise ValueError(f"'token' is {token[:40]!r}")
    return Knocked(token)


_DECODERS: dict[str, Callable[[_Entry], Report]] = {
    "ready": _ready,
    "started": lambda entry: Started(_key(entry), _time(entry, "start")),
    "suspended": lambda entry: Suspended(_key(entry), _time(entry, "at")),
    "checkpoint": lambda entry: Checkpointed(_key(entry), _time(entry, "at")),
    "resumed": lambda entry: Resumed(_key(entry), _time(entry, "at")),
    "walltime": lambda entry: WalltimeChanged(_key(entry), _number(entry, "seconds")),
    "ended": _ended,
    "refused": lambda entry: Refused(_key(entry), _reason(entry), _text(entry, "detail")),
    "unknown": lambda entry: Unknown(_key(entry)),
    "signalled": lambda entry: Signalled(_key(entry), _number(entry, "signal"), _get(entry, "taken", bool)),
    "cleaned": lambda entry: Cleaned(
        _key(entry), _number(entry, "killed"), _number(entry, "left"), _memory_kills(entry)
    ),
    "pong": lambda entry: Pong(_get(entry, "token", str), _time(entry, "clock")),
    "scripted": _scripted,
    "checked": lambda entry: Checked(_text(entry, "problem")),
    "knock": _knocked,
    "error": lambda entry: AgentError(_text(entry, "detail")),
}
