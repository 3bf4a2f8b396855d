"""Write ``docs/database.md`` and ``docs/states.md``: ``python docs/schema_pages.py [--check]``.

The database chapter is read from a freshly migrated database, on an embedded server of its own unless ``--dsn`` names
one. The diagrams come from ``oarpy.model.states``. With ``--check`` nothing is written: the exit status is 1 if a page
is not what it would become.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from oarpy.model.states import FINAL_STATES, HOLDING_STATES, PASSAGES, TRANSITIONS, JobState, ResourceState
from oarpy.postgres import embedded_server
from oarpy.store.database import connect
from oarpy.store.schema import migrations
from oarpy.store.schema.checks.catalog import ColumnDescription, Relation, describe

DOCS = Path(__file__).resolve().parent
NOTICE = "<!-- Written by `python docs/schema_pages.py`: change {source} instead. -->\n"

_STATES = """# States

## Jobs

Every move that is not listed is refused by the database, for modules, commands and hand-written SQL alike.
From Launching to Finishing a job may have programs on nodes. It leaves these states only in a statement that sets
`left_nothing`, as the launcher does when the nodes have nothing of it any more; `oardel` is how to end it.
"""

_PASSAGES = """
What happened to a job between two looks of the launcher is one move, which stands for several. The log of its states
(`job_state_logs`) shows them all, one right after the other.

"""

_RESOURCES = """
## Resources

An admin may put a resource in any state at any time. The monitor moves only between the states below, and undoes only
what it did itself (`resources.state_by`).

```mermaid
stateDiagram-v2
    [*] --> Alive
    Alive --> Suspected: its node does not answer (monitor)
    Suspected --> Alive: it answers again (monitor)
```

"""

_MEANINGS = {
    ResourceState.ALIVE: "may be given to jobs",
    ResourceState.ABSENT: "away for now; future reservations may count on it",
    ResourceState.SUSPECTED: "something is wrong; future reservations may count on it",
    ResourceState.DEAD: "gone for good; kept for its history",
}

_DATABASE = """# The database

The whole state of a cluster is in these tables; processes may come and go. Times are `timestamptz`, durations
`interval`, "none" is NULL. The database itself refuses what is wrong (constraints, and triggers where constraints
do not reach), writes the histories and announces changes, whoever makes them. `\\d+ TABLE` in psql shows the same
comments. [States](states.md) shows the allowed moves.

Nothing that is done often reads finished jobs: partial indexes hold the live ones. A query that wants them says
`is_live(state)` in its WHERE clause, or names states, literally.

Jobs of closed months go to schema `oar_past`, with all that hangs on their submissions: tables of the same names and
columns, and `month`. Schema `oar_all` has views of both ([the past of jobs](guides/past.md)).
"""

_REPORTS = """
# Views for analysts

Schema `oar_report` is stable: its views and columns keep their names and meanings when the tables change. To let
someone read them, and nothing else:

```console
$ oarpy db analyst ann --password-file secret.txt
role ann made
```

Schema `oar_compat` has the tables of OAR 2.5 as views: see
[For analysts](guides/analyst.md#programs-that-know-oar-25).

Core-hours of each project in May 2026:

```sql
SELECT project, sum(used_hours) FROM oar_report.accounting
WHERE day >= '2026-05-01' AND day < '2026-06-01' GROUP BY project ORDER BY 2 DESC;
```
"""


def states_page() -> str:
    """Return the diagram and the table of the allowed moves of jobs, and the states of resources."""
    finals = [f"    {state} --> [*]" for state in JobState if state in FINAL_STATES]
    arrows = [f"    {move.source} --> {move.target}: {move.event}" for move in TRANSITIONS]
    picture = ["```mermaid", "stateDiagram-v2", "    [*] --> Waiting", "    [*] --> Hold", *arrows, *finals, "```", ""]
    moves = [(f"{move.source}", f"{move.target}", move.event, move.who) for move in TRANSITIONS]
    passages = [(f"{source}", f"{target}", ", ".join(through)) for (source, target), through in PASSAGES.items()]
    states = [
        (f"{state}", state.letter, "yes" if state in HOLDING_STATES else "", "yes" if state in FINAL_STATES else "")
        for state in JobState
    ]
    return (
        NOTICE.format(source="oarpy/model/states.py or docs/schema_pages.py")
        + _STATES
        + "\n"
        + "\n".join(picture)
        + "\n"
        + _table(("state", "letter", "holds resources", "final"), states)
        + "\n"
        + _table(("from", "to", "event", "who"), moves)
        + _PASSAGES
        + _table(("from", "to", "through"), passages)
        + _RESOURCES
        + _table(("state", "meaning"), [(f"{state}", _MEANINGS[state]) for state in ResourceState])
    )


def database_page(tables: Iterable[Relation], views: Iterable[Relation]) -> str:
    """Return every table and view with its purpose, columns and constraints, as the server describes them."""
    return (
        NOTICE.format(source="oarpy/store/schema/, migrations/schema/ or docs/schema_pages.py")
        + _DATABASE
        + "".join(_relation(table, "") for table in tables)
        + _REPORTS
        + "".join(_relation(view, "oar_report.") for view in sorted(views, key=lambda view: view.name))
    )


def _relation(relation: Relation, prefix: str) -> str:
    columns = [(f"`{column.name}`", column.type, _default(column), column.comment) for column in relation.columns]
    head: tuple[str, ...] = ("column", "type", "default", "meaning")
    if prefix:
        head, columns = (head[0], head[1], head[3]), [(row[0], row[1], row[3]) for row in columns]  # type: ignore[misc]
    rules = "".join(f"- `{_one_line(definition)}`\n" for _, definition in relation.constraints)
    extra = f"\n{rules}" if rules else ""
    return f"\n## {prefix}{relation.name}\n\n{_sentence(relation.comment)}\n\n{_table(head, columns)}{extra}"


def _default(column: ColumnDescription) -> str:
    if column.default:
        return f"`{column.default.split('::')[0]}`" if "identity" not in column.default else "numbered"
    return "NULL" if column.nullable else ""


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [head, tuple("---" for _ in head), *(tuple(cell.replace("|", "\\|") for cell in row) for row in rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def pages(dsn: str) -> dict[str, str]:
    """Return the pages by name, the database chapter read from the migrated database at ``dsn``."""
    with connect(dsn, "docs") as connection:
        chapter = database_page(describe(connection), describe(connection, "oar_report"))
    return {"states.md": states_page(), "database.md": chapter}


@contextmanager
def _fresh_database() -> Iterator[str]:
    with tempfile.TemporaryDirectory(prefix="oarpy-docs-") as place:
        folder = Path(place) / "server"
        try:
            dsn = embedded_server.start(folder, settings={"fsync": "off"})
            migrations.upgrade(dsn)
            yield dsn
        finally:
            embedded_server.remove(folder)


def stale(rendered: dict[str, str]) -> list[str]:
    """Return the names of the pages whose files are not what they would become."""
    paths = {name: DOCS / name for name in rendered}
    return [name for name, path in paths.items() if not path.exists() or path.read_text("utf-8") != rendered[name]]


def main() -> int:
    """Write, or compare, both pages."""
    parser = argparse.ArgumentParser(description="write docs/database.md and docs/states.md")
    parser.add_argument("--check", action="store_true", help="write nothing, fail when a page is not current")
    parser.add_argument("--dsn", help="a database with the current schema")
    options = parser.parse_args()
    if options.dsn:
        rendered = pages(options.dsn)
    else:
        with _fresh_database() as dsn:
            rendered = pages(dsn)
    old = stale(rendered)
    for name in old:
        if options.check:
            sys.stderr.write(f"docs/{name} is not current: run python docs/schema_pages.py\n")
        else:
            (DOCS / name).write_text(rendered[name], encoding="utf-8")
    return 1 if options.check and old else 0


if __name__ == "__main__":
    sys.exit(main())
