"""The submission: the request of ``oarsub``, which admission rules see and may change, and which is stored.

Each field of :class:`Submission` has its properties in its metadata, a :class:`Field`:

- the option of ``oarsub``, its help, and how a text becomes its value;
- the form that rules and records may give it, and the values that are refused;
- the column of the job that holds it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import blake2b
from types import MappingProxyType
from typing import Any, Final

from oarpy.model import submission_checks as checks
from oarpy.model.dependency import Dependency, parse_dependency
from oarpy.model.errors import UsageError
from oarpy.model.job_types import INTERACTIVE, PASSIVE, with_offsets
from oarpy.model.notice import parse_notice
from oarpy.model.request import ResourceRequest
from oarpy.model.windows import NEVER, AskedWindow, read_farthest, read_fix, read_slack, slack_percent

_LONGEST_CHECKPOINT = 10 * 366 * 86400
NICEST: Final = 1000


@dataclass(frozen=True, slots=True)
class Option:
    """An option of ``oarsub``: its words, its help, and the name of its argument ("" for a flag without one).

    ``script_words`` are more words for it on ``#OAR`` lines (None: it is not allowed there). A ``verbatim`` value has a
    grammar of its own: on such a line only quotes around the whole value are removed. ``read`` makes the value of the
    field from the text, or from all texts of a ``repeated`` option. It is None if that needs more than the text.
    """

    words: tuple[str, ...]
    help: str
    metavar: str = ""
    repeated: bool = False
    verbatim: bool = False
    script_words: tuple[str, ...] | None = ()
    read: Callable[[Any], object] | None = None

    @property
    def name(self) -> str:
        """The option as people call it: its last long word without the dashes."""
        return (*self.words, *(self.script_words or ()))[-1].lstrip("-")


def _as_it_is(value: object) -> object:
    return value


@dataclass(frozen=True, slots=True)
class Field:
    """The properties of a field of the submission.

    ``form`` converts the value of a rule or a record into the stored form, or raises TypeError or ValueError. ``check``
    raises :class:`UsageError` for a value that cannot be stored or carried out. ``column`` is the column of the job
    with ``stored(value)``; a job submitted ``again`` gets the same. A rule cannot change a ``read_only`` field. A field
    that is not ``recorded`` is left out of the record kept with the submission. ``seen`` makes the value for scheduling
    passes, under the same name; without it passes do not see the field. In SQL that value is the column, or the epoch
    seconds of an ``instant``. ``oaralter`` may change an ``alterable`` field while the job waits.
    """

    form: Callable[[object], object]
    option: Option | None = None
    check: Callable[[Any], object] | None = None
    column: str = ""
    stored: Callable[[Any], object] = _as_it_is
    again: bool = True
    read_only: bool = False
    recorded: bool = True
    seen: Callable[[Any], object] | None = None
    instant: bool = False
    alterable: bool = False


def _field(form: Callable[[object], object], default: object, option: Option | None = None, **more: Any) -> Any:
    """Return a field of the submission: its form, default and option; ``more`` are other fields of :class:`Field`."""
    metadata = {"submission": Field(form, option, **more)}
    if isinstance(default, dict):
        return dataclasses.field(default_factory=dict, metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


@dataclass(frozen=True)
class Submission:
    """One call of ``oarsub``, whatever number of jobs it makes.

    ``alternatives`` are the moldable choices: a walltime (seconds) of None and empty groups mean "not given".
    ``checkpoint`` is in seconds before the end of the walltime (0 = none). ``reservation`` is the requested start, with
    its time zone. ``dependencies`` are as written (``7``, ``ok:7``). ``array_parameters`` hold one argument line for
    each member.
    """

    user: str = dataclasses.field(
        metadata={"submission": Field(checks.word, column="user_name", read_only=True, seen=_as_it_is)}
    )
    groups: tuple[str, ...] = _field(checks.words, (), read_only=True)
    queue: str | None = _field(
        checks.optional_word,
        None,
        Option(("-q", "--queue"), "queue", "QUEUE", read=str),
        column="queue_name",
        seen=lambda name: name or "",
        alterable=True,
    )
    project: str = _field(
        checks.word,
        "default",
        Option(("--project",), "project that pays", "PROJECT", read=str),
        check=checks.check_project,
        column="project",
        seen=_as_it_is,
        alterable=True,
    )
    name: str = _field(
        checks.text,
        "",
        Option(("-n", "--name"), "name of the job", "NAME", read=str),
        check=checks.check_name,
        column="job_name",
        seen=_as_it_is,
        alterable=True,
    )
    types: tuple[str, ...] = _field(
        checks.words,
        (),
        Option(
            ("-t", "--type"),
            "job type, repeatable",
            "TYPE",
            repeated=True,
            read=lambda words: with_offsets(checks.different(words)),
        ),
        check=checks.check_types,
        column="types",
        stored=list,
        seen=_as_it_is,
    )
    properties: str = _field(
        checks.text,
        "",
        Option(
            ("-p", "--property"),
            "SQL condition on resources",
            "SQL",
            verbatim=True,
            script_words=("--properties",),
            read=checks.condition,
        ),
        column="properties",
        seen=_as_it_is,
        alterable=True,
    )
    alternatives: tuple[ResourceRequest, ...] = _field(
        checks.alternatives,
        (),
        Option(
            ("-l", "--resource"),
            "resources; several -l are alternatives",
            "REQUEST",
            repeated=True,
            verbatim=True,
            read=checks.requests,
        ),
        alterable=True,
    )
    reservation: datetime | None = _field(  # noqa: RUF009
        checks.date,
        None,
        Option(("-r", "--reservation"), 'date of the start, optionally ", END"', "START", verbatim=True),
        column="reservation_start",
        again=False,
        seen=lambda date: None if date is None else date.timestamp(),
        instant=True,
    )
    until: datetime | None = _field(  # noqa: RUF009
        checks.date,
        None,
        Option(
            ("--until",), "latest end of a reservation, which may move until then, or of a bag", "END", verbatim=True
        ),
    )
    slack: str = _field(
        checks.text,
        "",
        Option(
            ("--slack",),
            "how far a reservation may be put off: 50% of its walltime, or 2h",
            "SLACK",
            read=str.strip,
        ),
        check=lambda value: read_slack(value, 0) if value else None,
    )
    fix: str = _field(
        checks.text,
        "",
        Option(
            ("--fix",),
            "when a reservation no longer moves: now, never, or N% of the time until its start",
            "WHEN",
            read=str.strip,
        ),
        check=lambda value: read_fix(value) if value else None,
    )
    farthest: float | None = _field(
        checks.optional_number,
        None,
        Option(
            ("--farthest",),
            "if a reservation cannot be had, take a start at most so many run times away",
            "PHI",
            read=read_farthest,
        ),
    )
    interactive: bool = _field(
        checks.boolean,
        False,
        Option(("-I", "--interactive"), "a shell on the first node instead of a command", script_words=None),
        column="kind",
        stored=lambda value: INTERACTIVE if value else PASSIVE,
        read_only=True,
    )
    command: str = _field(checks.text, "", check=checks.check_command)
    directory: str = _field(
        checks.word,
        "/",
        Option(("-d", "--directory"), "working directory", "DIRECTORY", read=str),
        column="launching_directory",
        alterable=True,
    )
    stdout: str = _field(
        checks.text,
        "",
        Option(("-O", "--stdout"), "file for output (%jobid%, %jobname%)", "FILE", read=str),
        check=checks.check_output("-O"),
        column="stdout_path",
        alterable=True,
    )
    stderr: str = _field(
        checks.text,
        "",
        Option(("-E", "--stderr"), "file for errors (%jobid%, %jobname%)", "FILE", read=str),
        check=checks.check_output("-E"),
        column="stderr_path",
        alterable=True,
    )
    array_size: int = _field(
        checks.integer(1, checks.LARGEST_ARRAY),
        1,
        Option(("--array",), "submit N jobs, of which M run at once", "N[%M]"),
        read_only=True,
    )
    array_parameters: tuple[str, ...] = _field(
        checks.texts,
        (),
        Option(("--array-param-file",), "one job for each line of arguments in this file", "FILE"),
        read_only=True,
    )
    bag: int = _field(
        checks.integer(0, 2**31 - 1),
        0,
        Option(("--bag",), "submit N equal tasks, and be told when all will be done", "N"),
        read_only=True,
    )
    strict: bool = _field(
        checks.boolean, False, Option(("--strict",), "refuse a bag that cannot be done by --until"), read_only=True
    )
    profile: str = _field(
        checks.text,
        "",
        Option(
            ("--profile",),
            "script that prints the seconds of a task of the bag",
            "SCRIPT",
            read=checks.program("--profile"),
        ),
        read_only=True,
    )
    processes: int = _field(
        checks.integer(0, checks.MOST_PROCESSES),
        0,
        Option(
            ("--processes",),
            "processes of the program, which are mapped over the cores of the job",
            "N",
            read=checks.number("--processes", 1, checks.MOST_PROCESSES),
        ),
        read_only=True,
    )
    iterations: int = _field(
        checks.integer(0, checks.MOST_ITERATIONS),
        0,
        Option(
            ("--iterations",),
            "iterations of each process",
            "N",
            read=checks.number("--iterations", 1, checks.MOST_ITERATIONS),
        ),
        read_only=True,
    )
    sizes: tuple[str, ...] = _field(
        checks.words,
        (),
        Option(("--sizes",), "sizes of the processes, SIZE[,SIZE...]", "SIZES", read=checks.read_sizes),
        read_only=True,
    )
    model: str = _field(
        checks.text,
        "",
        Option(("--model",), "sync: in stages, async, or the name of a plug-in", "MODEL", read=str.strip),
        read_only=True,
    )
    rate: str = _field(
        checks.text,
        "",
        Option(("--rate",), "script that is timed as SCRIPT SIZE ITERATIONS", "SCRIPT", read=str),
        read_only=True,
    )
    dependencies: tuple[str, ...] = _field(
        checks.words,
        (),
        Option(
            ("-a", "--anterior", "--after"),
            "wait for the end of ID, ok:ID, notok:ID, or each member for its own of corr:ID;"
            " ID,[+T: for its start and T more, ID,]+T: for its end",
            "ID",
            repeated=True,
            read=checks.different,
        ),
        check=checks.check_dependencies,
    )
    hold: bool = _field(checks.boolean, False, Option(("--hold",), "submit in state Hold"))
    notify: str = _field(
        checks.text,
        "",
        Option(
            ("--notify",),
            "[TAGS]mail:ADDRESS or [TAGS]exec:COMMAND",
            "NOTICE",
            verbatim=True,
            read=str.strip,
        ),
        check=lambda value: parse_notice(value) if value else None,
        column="notify",
        alterable=True,
    )
    checkpoint: int = _field(
        checks.integer(0, _LONGEST_CHECKPOINT),
        0,
        Option(
            ("--checkpoint",),
            "signal the job so long before its end",
            "SECONDS",
            read=checks.number("--checkpoint", 0, _LONGEST_CHECKPOINT),
        ),
        column="checkpoint",
        stored=lambda value: timedelta(seconds=value),
        alterable=True,
    )
    checkpoint_signal: int = _field(
        checks.integer(1, checks.HIGHEST_SIGNAL),
        12,
        Option(("--signal",), "checkpoint signal (USR1, 10; default 12)", "SIGNAL", read=checks.read_signal),
        column="checkpoint_signal",
        alterable=True,
    )
    nice: int = _field(
        checks.integer(0, NICEST),
        0,
        Option(
            ("--nice",),
            "0 to 1000: the greater, the later among your own jobs of the queue",
            "N",
            read=checks.number("--nice", 0, NICEST),
        ),
        column="nice",
        seen=_as_it_is,
        alterable=True,
    )
    throttle: int | None = _field(
        checks.optional_throttle,
        None,
        Option(
            ("--throttle",),
            "members of the array that run at once; also --array N%M",
            "M",
            read=checks.number("--throttle", 1, checks.LARGEST_ARRAY),
        ),
        column="throttle",
        alterable=True,
    )
    use_key: bool = _field(
        checks.boolean, False, Option(("-k", "--use-job-key"), "give the job an SSH key"), read_only=True
    )
    key_file: str = _field(
        checks.text,
        "",
        Option(("-i", "--import-job-key-from-file"), "take this private key for the job", "FILE", read=str),
        read_only=True,
    )
    key_text: str = _field(
        checks.text,
        "",
        Option(
            ("--import-job-key-inline-priv", "--import-job-key-inline"),
            "take this private key for the job",
            "TEXT",
            verbatim=True,
            read=str,
        ),
        read_only=True,
        recorded=False,
    )
    key_export: str = _field(
        checks.text,
        "",
        Option(("-e", "--export-job-key-to-file"), "write the key of the job there (%jobid%)", "FILE", read=str),
        read_only=True,
    )
    resubmit_of: int | None = _field(checks.optional_integer, None, read_only=True)
    initial_request: str = _field(checks.text, "", read_only=True, recorded=False)
    submitted_from: str = _field(checks.text, "", read_only=True, recorded=False)
    script: str = _field(checks.text, "", read_only=True, recorded=False)
    environment: Mapping[str, str] = _field(checks.environment, {}, check=checks.check_environment, recorded=False)

    def changed(self, **values: Any) -> Submission:
        """Return the submission with these values in fields: ``dataclasses.replace``, in a sixth of its time."""
        fresh = object.__new__(Submission)
        vars(fresh).update(vars(self), **values)
        if len(vars(fresh)) > len(vars(self)):
            raise TypeError(f"a submission has no '{next(name for name in values if name not in FIELDS)}'")
        return fresh

    def with_values(self, values: Mapping[str, object]) -> Submission:
        """Return the submission with other values in some fields, given in any form that the fields accept.

        Raises TypeError or ValueError with the accepted form.
        """
        return self.changed(**{name: _taken(name, value) for name, value in values.items()})

    def check(self) -> None:
        """Raise :class:`UsageError` for the first value that cannot be stored or carried out."""
        for name, field in FIELDS.items():
            if field.check is not None:
                field.check(getattr(self, name))
        for dependency in self.dependencies if self.reservation is not None else ():
            required = parse_dependency(dependency)
            if required.earliest or required.latest:
                raise UsageError(
                    f"dependency '{checks.short(dependency)}' with a reservation", hint="-r gives the start"
                )
        longest = checks.size(self.command) + max(map(checks.size, self.array_parameters), default=0)
        if longest + 1 > checks.LONGEST_COMMAND:
            raise UsageError(
                f"command of {longest} bytes", hint=f"at most {checks.LONGEST_COMMAND}, arguments included"
            )

    @property
    def required(self) -> dict[int, Dependency]:
        """The dependencies of the jobs, by the id of the other job; the last of several on one job counts."""
        return {dependency.job: dependency for dependency in map(parse_dependency, self.dependencies)}

    @property
    def window(self) -> AskedWindow | None:
        """The window in which a reservation may move, or which it may miss; its alternatives say their walltimes."""
        if self.reservation is None or (self.until is None and not self.slack and self.farthest is None):
            return None
        longest = max((request.walltime or 0 for request in self.alternatives), default=0)
        room = read_slack(self.slack, longest) if self.slack else 0
        deadline = self.until or self.reservation + timedelta(seconds=longest + room)
        percent = slack_percent(self.slack) if self.until is None else None
        return AskedWindow(self.reservation, deadline, read_fix(self.fix or NEVER), self.farthest, percent)

    @property
    def kind(self) -> int | None:
        """A number that submissions of the same kind share; None for a submission without comparable past ones.

        Submissions are of the same kind if one user asks for the same resources, whatever the walltime, and runs the
        same program. That is a program under the same name, or without a name the same command in the same folder.
        """
        if self.interactive or self.bag or self.reservation is not None or len(self.alternatives) != 1:
            return None
        run = (self.name, *self.command.split(None, 1)[:1]) if self.name else (self.directory, self.command)
        request = self.queue, self.project, sorted(self.types), self.properties, str(self.alternatives[0])
        digest = blake2b(repr((self.user, *request, *run)).encode(), digest_size=8).digest()
        return int.from_bytes(digest, "big", signed=True)

    def columns(self) -> dict[str, object]:
        """Return the values that the jobs keep, by column."""
        return {field.column: field.stored(getattr(self, name)) for name, field in FIELDS.items() if field.column}

    def seen(self) -> dict[str, Any]:
        """Return the values for scheduling passes, by field."""
        return {name: field.seen(getattr(self, name)) for name, field in FIELDS.items() if field.seen is not None}

    def to_record(self) -> dict[str, object]:
        """Return the JSON form, without fields that have their defaults."""
        fresh = Submission(self.user)
        values = {name: getattr(self, name) for name in FIELDS}
        return {name: plain(value) for name, value in values.items() if name == "user" or value != getattr(fresh, name)}

    @staticmethod
    def from_record(record: Mapping[str, object]) -> Submission:
        """Read :meth:`to_record`'s form; an alternative may also be a text as after ``-l``.

        Raises :class:`UsageError` naming the key that is unknown or wrong.
        """
        if unknown := sorted(set(record) - set(FIELDS)):
            raise UsageError(f"unknown key '{unknown[0]}' in a submission", hint=f"keys: {', '.join(FIELDS)}")
        if "user" not in record:
            raise UsageError("a submission without user", hint='give it one: user = "ann"')
        try:
            return Submission(**{name: _taken(name, value) for name, value in record.items()})
        except (TypeError, ValueError) as error:
            raise UsageError(f"submission: {error}") from None


FIELDS: Final[Mapping[str, Field]] = MappingProxyType(
    {item.name: item.metadata["submission"] for item in dataclasses.fields(Submission)}
)
"""All fields of a submission by name."""

OPTIONS: Final[Mapping[str, Option]] = MappingProxyType(
    {name: field.option for name, field in FIELDS.items() if field.option is not None}
)
"""The options of ``oarsub`` for the request, by the field that each fills."""

ALTERABLE: Final = tuple(name for name, field in FIELDS.items() if field.alterable)
"""The fields that ``oaralter`` may change."""

COLUMNS: Final = tuple(field.column for field in FIELDS.values() if field.column)
"""The columns of jobs that hold a field unchanged."""

SEEN_COLUMNS: Final = frozenset(field.column for field in FIELDS.values() if field.seen is not None)
"""Those of them that scheduling passes read."""

COPIED_COLUMNS: Final = (*(field.column for field in FIELDS.values() if field.column and field.again), "command")
"""The columns that a repeated job copies from the job that it repeats."""


def plain(value: object) -> object:
    """Return the JSON form of a field's value."""
    if isinstance(value, ResourceRequest):
        walltime = {} if value.walltime is None else {"walltime": value.walltime}
        return {"resources": str(value)} | walltime
    if isinstance(value, tuple):
        return [plain(item) for item in value]
    if isinstance(value, datetime):
        return value.isoformat()
    return dict(value) if isinstance(value, Mapping) else value


def _taken(name: str, value: object) -> Any:
    """Return ``value`` in the form of field ``name``. Raises TypeError or ValueError that begins with the name."""
    try:
        return FIELDS[name].form(value)
    except (TypeError, ValueError) as error:
        raise type(error)(f"{name} {error}") from None
