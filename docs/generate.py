"""Write the pages of ``docs/`` that come from tables in the code: ``python docs/generate.py [--check]``.

With ``--check`` nothing is written: the exit status is 1 if a page is not what it would become.
"""

from __future__ import annotations

import dataclasses
import inspect
import json
import re
import sys
import tomllib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import benchmark_tables

from oarpy.admission.rules import rule_api
from oarpy.admission.rules.site import QUESTIONS, Holding, JobInfo, QueueInfo, Site
from oarpy.configuration import SECTIONS, Configuration
from oarpy.model.job_types import TYPES, JobType, Usable
from oarpy.model.request import Consumption, Group, Level, ResourceRequest
from oarpy.model.submission import FIELDS, Field, Submission
from oarpy.modules.automaton import PATIENCE, PATIENT, REACTIONS, TABLE, Activity
from oarpy.wire.jobs import JobSpec
from oarpy.wire.messages import COMMANDS, REPORTS, JobReport, Message
from oarpy.wire.structure import Structure

DOCS = Path(__file__).resolve().parent
NOTICE = "<!-- Written by `make docs`: change {source} instead. -->\n"


def configuration_page() -> str:
    """Return every setting with its variable, its default and its meaning."""
    meanings = tomllib.loads((DOCS / "settings.toml").read_text(encoding="utf-8"))
    known = {name: {"_", *(one.name for one in dataclasses.fields(section))} for name, section in SECTIONS.items()}
    described = {name: set(keys) for name, keys in meanings.items()}
    if known != described:
        raise SystemExit("docs/settings.toml and oarpy/configuration.py do not name the same keys")
    parts = [_INTRODUCTION]
    for name, section in SECTIONS.items():
        rows = [
            (f"`{one.name}`", f"`{json.dumps(_plain(getattr(section, one.name)))}`", meanings[name][one.name])
            for one in dataclasses.fields(section)
        ]
        parts.append(f"## [{name}]\n\n{meanings[name]['_']}\n\n{_table(('key', 'default', 'meaning'), rows)}")
    return _page("docs/settings.toml or oarpy/configuration.py", "\n".join(parts))


_INTRODUCTION = """# Configuration

The configuration is one file in TOML: `$OARPY_CONFIG`, else `~/.config/oarpy/config.toml` if it exists, else
`/etc/oarpy/config.toml`. No file is needed: every key has a default. A variable `OARPY_<SECTION>_<KEY>` in the
environment wins over the file. In it, lists are written with commas (`OARPY_SUBMISSION_ADMINS=root,alice`). An unknown
section or key is an error, and so is a value that cannot be meant. A leading `~` of a path is the home of the account
that reads the file.

`oarpy config show` prints every value and where it came from. Programs read the file when they start: a change holds
for all of them once `oarpy server`, `oarpy web` and what else runs are started again.
"""


def automaton_page() -> str:
    """Return the table of the automaton as a picture and as rows, and who is concerned by which event."""
    arrows = [
        f"    {source.name} --> {step.target.name}: {stimulus}{' / tell' if step.tell else ''}"
        for (source, stimulus), step in TABLE.items()
        if source is not step.target or step.tell
    ]
    names = [f'    state "{activity}" as {activity.name}' for activity in Activity]
    picture = "\n".join(["```mermaid", "stateDiagram-v2", *names, f"    [*] --> {Activity.IDLE.name}", *arrows, "```"])
    steps = [
        (str(source), str(stimulus), str(step.target), "yes" if step.tell else "")
        for (source, stimulus), step in TABLE.items()
    ]
    events = [(f"`{event}`", ", ".join(modules) or "nobody") for event, modules in REACTIONS.items()]
    patient = ", ".join(sorted(PATIENT))
    return _page(
        "oarpy/modules/automaton.py",
        f"{_AUTOMATON}\n{picture}\n\n{_table(('believed', 'stimulus', 'then', 'told to run'), steps)}\n"
        f"## Which event concerns whom\n\n{_table(('event', 'modules'), events)}\n"
        f"Work that can wait ({patient}) is told at most once every {PATIENCE:g} seconds.\n",
    )


_AUTOMATON = """# The automaton

The automaton alone decides when a module runs. Triggers of the database announce what happened on the channel
`oarpy_events`, whoever did it: a module, a command, or an admin in psql. The automaton merges repeats and tells each
module that is concerned, on a channel of its own. It keeps no truth. A notification that is lost, doubled or late
delays, and never breaks. Each module also runs on a slow period and finds its work in the tables. One automaton
leads, by an advisory lock of the database; another one waits and takes over.

Of every module it believes one of three things. A stimulus moves the belief; *tell* is the notification to the module.
*Wanted* comes from an event, *done* from the module's own report. *Overdue* comes when the module has not been told for
its slow period. So a module that was killed in the middle of its work is told again.
"""


def messages_page() -> str:
    """Return the page of what server and agents say to each other."""
    head = ("word", "message", "fields", "meaning")
    commands, reports = (_table(head, map(_message_row, table.values())) for table in (COMMANDS, REPORTS))
    return _page(
        "oarpy/wire/messages.py",
        f"{_MESSAGES}\n## From the server to an agent\n\n{commands}\n## From an agent to the server\n\n{reports}\n"
        f"A `JobReport` has {', '.join(' '.join(one) for one in _fields(JobReport))}.\n\n"
        f"## A job\n\nA `JobSpec` has these fields:\n\n{_table(('field', 'kind'), _fields(JobSpec))}",
    )


_MESSAGES = """# Messages between server and agents

One table, `oarpy/wire/messages.py`, says what may be said: a class for each message, with its word and its fields. Each
field names what it may hold. Both sides derive their encoding and decoding from it: what is not exactly a message, with
all its fields and no other, is refused.

The server writes one command a line, an agent one line for all reports of a turn; JSON both ways. A message is an
object of its fields, and its word is under `type`. A `JobKey` is `[job, attempt]`. Specifications of jobs travel
together: what all have in common is sent once under `shared`, the rest of every one in the list `each`.
"""


def _message_row(kind: type[Message]) -> tuple[str, ...]:
    first = (kind.__doc__ or "").partition("\n\n")[0]
    meaning = re.sub(r":class:`(\w+)`", r"\1", " ".join(first.split())).replace("``", "`")
    return f"`{kind.WORD}`", kind.__name__, ", ".join(f"{name} {sort}" for name, sort in _fields(kind)), meaning


def _fields(kind: type[Structure]) -> list[tuple[str, str]]:
    sorts: dict[str, str] = {}
    for one in reversed(kind.__mro__):
        sorts |= inspect.get_annotations(one)
    return [(f"`{name}`", sorts[name].replace("|", "or").replace(", ...", "")) for name in kind.CHECKS]


def _plain(value: object) -> object:
    return list(value) if isinstance(value, tuple) else dict(value) if isinstance(value, Mapping) else value


def _page(source: str, text: str) -> str:
    return NOTICE.format(source=source) + text


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [head, tuple("---" for _ in head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def benchmarks_page() -> str:
    """Return the page of what the last runs of the benchmarks measured."""
    return _page("docs/benchmark_tables.py, or run a benchmark,", benchmark_tables.page())


def types_page() -> str:
    """Return the guide of types, with its table as the types are in the code."""
    rows = [_type_row(kind) for kind in TYPES.values() if kind.usable is not Usable.NOWHERE]
    unused = [f"`{kind.name}`" for kind in TYPES.values() if kind.usable is Usable.NOWHERE]
    rows.append((", ".join(unused), "words of other OAR versions; nothing here acts on them, so they are not offered"))
    return _between(_GUIDE, _TYPES, _table(("type", "meaning"), rows))


_GUIDE, _TYPES = "guides/types.md", "the table TYPES of oarpy/model/job_types.py"


def _between(guide: str, source: str, text: str) -> str:
    """Return a guide with ``text`` between the notice and the end of what is generated."""
    before, begin, rest = (DOCS / guide).read_text(encoding="utf-8").partition(NOTICE.format(source=source))
    _, end, after = rest.partition("<!-- end -->\n")
    return f"{before}{begin}\n{text}\n{end}{after}"


def rules_page() -> str:
    """Return the guide of rules, with all that a rule may use."""
    fields = _annotations(Submission)
    job = [
        (f"`job.{name}`", fields[name], _meaning(name, field) + (" (read only)" if field.read_only else ""))
        for name, field in FIELDS.items()
    ]
    names = _rows_of(rule_api.__doc__ or "")
    site = [(f"`site.{name}{_call(Site, name)}`", _first_line(getattr(Site, name).__doc__)) for name in _QUESTIONS]
    parts = [
        (
            kind.__name__,
            ", ".join(f"`{name}` {sort}" for name, sort in _annotations(kind).items()),
            _first_line(kind.__doc__),
        )
        for kind in (ResourceRequest, Group, Level, Consumption, QueueInfo, JobInfo, Holding)
    ]
    return _between(
        _RULES_GUIDE,
        _RULES,
        f"{_table(('name', 'meaning'), names)}\n{_table(('the submission', 'kind', 'meaning'), job)}\n"
        f"{_table(('question', 'answer'), site)}\n`job.alternatives` are ResourceRequests; these are the values that "
        f"are asked for and answered:\n\n{_table(('value', 'attributes', 'meaning'), parts)}",
    )


_RULES_GUIDE, _RULES = "guides/rules.md", "oarpy/model/submission.py or oarpy/admission/rules"
_QUESTIONS = ("now", *sorted(QUESTIONS - {"now", "settings"}))
_WITHOUT_OPTION = {
    "user": "who submits",
    "groups": "Unix groups of the user",
    "script": "the text of the script that the command begins with, if it is kept",
    "command": "the command of the job, one line",
    "resubmit_of": "the job that this one repeats",
    "initial_request": "the call as typed",
    "submitted_from": "the machine where it was typed",
    "environment": "variables that the job gets",
}


def _meaning(name: str, field: Field) -> str:
    if field.option is None:
        return _WITHOUT_OPTION[name]
    return f"{field.option.help} (`oarsub {field.option.words[0]}`)"


def _annotations(kind: type) -> dict[str, str]:
    sorts = inspect.get_annotations(kind)
    return {name: sort.replace(" | ", " or ").replace(", ...", "") for name, sort in sorts.items()}


def _call(kind: type, name: str) -> str:
    """Return the arguments of a method as a rule writes them."""
    signature = inspect.signature(getattr(kind, name))
    parameters = list(signature.parameters.values())[1:]
    given = [f"{one.name}=" if one.default is not one.empty else str(one).partition(":")[0] for one in parameters]
    return f"({', '.join(given)})"


def _first_line(text: str | None) -> str:
    first = " ".join((text or "").partition("\n\n")[0].split())
    return re.sub(r":(?:class|data):`~?(\w+\.)*(\w+)`", r"\2", first).replace("``", "`")


def _rows_of(text: str) -> list[tuple[str, str]]:
    """Return the rows of the table in a docstring: its first column is as wide as its line of ``=``."""
    rule = next(line for line in text.splitlines() if line.startswith("==="))
    width = rule.index(" ")
    rows = [line for line in text.splitlines() if line.startswith("``")]
    return [(row[:width].strip().replace("``", "`"), _first_line(row[width:])) for row in rows]


def _type_row(kind: JobType) -> tuple[str, str]:
    spellings = ", ".join(f"`{spelling}`" for spelling in kind.spellings)
    return spellings, f"{kind.help} ([more]({kind.guide}))" if kind.guide else kind.help


def openapi_file() -> str:
    """Return the description of the endpoints, as ``/openapi.json`` has it."""
    from oarpy.web.app import application

    described = application(Configuration()).openapi()
    described["paths"] = {
        path: what for path, what in described["paths"].items() if path.startswith(("/api", "/oarapi"))
    }
    return json.dumps(described, indent=1, ensure_ascii=False) + "\n"


PAGES: dict[str, Callable[[], str]] = {
    "configuration.md": configuration_page,
    "automaton.md": automaton_page,
    "messages.md": messages_page,
    "benchmarks.md": benchmarks_page,
    "openapi.json": openapi_file,
    _GUIDE: types_page,
    _RULES_GUIDE: rules_page,
}


def main() -> int:
    """Write, or compare, every page."""
    stale = []
    for name, render in PAGES.items():
        path, text = DOCS / name, render()
        if "--check" not in sys.argv:
            path.write_text(text, encoding="utf-8")
        elif not path.exists() or path.read_text(encoding="utf-8") != text:
            stale.append(name)
    for name in stale:
        sys.stderr.write(f"docs/{name} is not current: run `make docs`\n")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
