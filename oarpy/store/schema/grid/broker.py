"""A broker of several clusters: clusters, jobs with their components and parts, transactions, and decisions."""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Double,
    ForeignKey,
    ForeignKeyConstraint,
    Identity,
    Index,
    Integer,
    PrimaryKeyConstraint,
    Text,
    text,
)
from sqlalchemy.dialects.postgresql import ARRAY, INTERVAL, JSONB

from oarpy.store.schema.columns import CLOCK, INSTANT, column, rule, table

LAST_EVENT = 2**62
"""The highest number that a door takes."""
_LONGER_THAN_NOTHING = "EXTRACT(epoch FROM walltime) > 0"

grid_transitions = table(
    "grid_transitions",
    "the allowed moves between states of grid jobs, parts and transactions, for every SQL client",
    column("subject", Text, "job, part or transaction", key=True, check="subject IN ('job', 'part', 'transaction')"),
    column("from_state", Text, "state before", key=True),
    column("to_state", Text, "state after", key=True),
    column("event", Text, "when such a move is made"),
)

grid_clusters = table(
    "grid_clusters",
    "the clusters that the broker uses (oargridctl clusters)",
    column("name", Text, "its name", key=True, check="name ~ '^[A-Za-z0-9_]+$'"),
    column("kind", Text, "what it runs: oarpy or slurm", check="kind IN ('oarpy', 'slurm')"),
    column("door", ARRAY(Text), "the command that leads to it, in words", check="cardinality(door) > 0"),
    column(
        "speed",
        Double,
        "how many times as fast as speed 1, as an admin says; NULL: as it told",
        optional=True,
        check="speed > 0",
    ),
    column("dedicated", Boolean, "whether the broker alone submits there", default=False),
    column("place", Integer, "its place in the configured order", default=0),
    column("active", Boolean, "whether new parts go there", default=True),
    column("procs", Integer, "processors, as it told last; NULL: not known yet", optional=True, check="procs >= 0"),
    column("abilities", ARRAY(Text), "what it can do besides queued jobs, as it told last", default="{}"),
    column("clock_offset", Double, "seconds by which its clock is ahead, as it told last", optional=True),
    column("heard_at", INSTANT, "when it last answered", optional=True),
    column("silent_since", INSTANT, "since when it does not answer; NULL while it does", optional=True),
    column("message", Text, "why it does not answer, or refuses", default=""),
    column(
        "last_event",
        BigInteger,
        "number of the last event of it that was taken in",
        default=0,
        check=f"last_event BETWEEN 0 AND {LAST_EVENT}",
    ),
    column("users", ARRAY(Text), "users whose jobs may go there; NULL: everybody's", optional=True),
    column(
        "told_speed",
        Double,
        "how many times as fast as speed 1, as it told last; NULL: not known yet",
        optional=True,
        check="told_speed > 0",
    ),
    column("plan", BigInteger, "number of its plan, as it told last while offers were open", default=0),
)

grid_jobs = table(
    "grid_jobs",
    "jobs of users of several clusters",
    column("id", BigInteger, "number of the grid job", Identity(), key=True, check="id > 0"),
    column("user_name", Text, "the broker's user", check="user_name <> ''"),
    column(
        "kind",
        Text,
        "mapped: on one cluster; coallocated: components that start together; named: parts on named clusters;"
        " metajob: one program over clusters that the broker chooses; bag: equal tasks over clusters",
        check="kind IN ('mapped', 'coallocated', 'named', 'metajob', 'bag')",
    ),
    column("state", Text, "present state; grid_transitions says what may follow", default="Submitted"),
    column("submitted_at", INSTANT, "when", default=CLOCK),
    column("program", Text, "what is run", default=""),
    column("directory", Text, "where; NULL: the home directory", optional=True),
    column("job_name", Text, "its name", default=""),
    column("queue_name", Text, "queue on the clusters; empty: their default", default=""),
    column("project", Text, "project on the clusters", default=""),
    column("walltime", INTERVAL, "walltime at speed 1", check=_LONGER_THAN_NOTHING),
    column("deadline", INSTANT, "when all components start", optional=True),
    column("components", Integer, "how many", default=1, check="components > 0"),
    column("lp", Double, "its own Lp; NULL: the setting", optional=True, check="lp > 0 AND lp <= 1"),
    column("tries", Integer, "its own Mp; NULL: the setting", optional=True, check="tries >= 0"),
    column("wait", INTERVAL, "its own X of Wait-X; NULL: the setting", optional=True),
    column("array_id", BigInteger, "the first job of its array; NULL: it belongs to none", optional=True),
    column("array_index", Integer, "its place in the array, from 1 on", default=1, check="array_index > 0"),
    column("message", Text, "why it is in this state", default=""),
    column("delete_asked", INSTANT, "when its deletion was asked for", optional=True),
    column("delete_by", Text, "who asked for it", default=""),
    column("started_at", INSTANT, "when its first part started", optional=True),
    column("ended_at", INSTANT, "when it was over", optional=True),
    column("exit_status", Integer, "the first exit status of a part that is not 0, else 0", optional=True),
    column("notify", Text, "whom to tell what becomes of it", default=""),
    rule("grid_jobs_deadline_of_kind", "(kind NOT IN ('coallocated', 'named')) OR (deadline IS NOT NULL)"),
    rule("grid_jobs_mapped_is_one", "(kind <> 'mapped') OR (components = 1)"),
    rule("grid_jobs_end_known", "(state IN ('Terminated', 'Error', 'Missed')) = (ended_at IS NOT NULL)"),
    Index("grid_jobs_live", "state", "id", postgresql_where=text("state NOT IN ('Terminated', 'Error', 'Missed')")),
    Index("grid_jobs_user", "user_name", "id"),
    Index("grid_jobs_array", "array_id", postgresql_where=text("array_id IS NOT NULL")),
)

grid_metajobs = table(
    "grid_metajobs",
    "what jobs of kind metajob ask for, and their place",
    column("job", BigInteger, "the job", ForeignKey(grid_jobs.c.id, ondelete="CASCADE"), key=True),
    column("unit", Text, "what it asks for, without their number: /core", check="unit <> ''"),
    column("procs", Integer, "how many of them, over all clusters", check="procs > 0"),
    column(
        "overhead",
        Double,
        "by which share it takes longer on several clusters",
        default=0,
        check="overhead BETWEEN 0 AND 1",
    ),
    column(
        "operation",
        Text,
        "what may be done with it after an early end",
        check="operation IN ('rigid', 'shift', 'remap')",
    ),
    column("at_most", JSONB, "most of them by cluster; others may give all", default="{}"),
    column("end_by", INSTANT, "when it is over at the latest; NULL: whenever", optional=True),
    column("first", Text, "cluster that is asked first; empty: not placed yet", default=""),
    column("placings", Integer, "how often its parts were reserved", default=0, check="placings >= 0"),
    column("refusals", Integer, "how often clusters refused it since", default=0, check="refusals >= 0"),
    column("told", JSONB, "by cluster what it had when the job was placed, or why it was left out", default="{}"),
    column("promised_start", INSTANT, "the start that was promised first", optional=True),
    column("promised_end", INSTANT, "the end that was promised first", optional=True),
    column("end_at", INSTANT, "when it is over in its present place", optional=True),
    column("idle_on", Text, "cluster where others ended early, to be looked at; empty: none", default=""),
    column("begun_at", INSTANT, "when its program was told to begin there; NULL: not yet", optional=True),
    rule("grid_metajobs_promise", "(promised_start IS NULL) = (promised_end IS NULL)"),
)

grid_programs = table(
    "grid_programs",
    "programs of metajobs whose processes are mapped over types of nodes, and the map that goes with the place of each",
    column("job", BigInteger, "the job", ForeignKey(grid_metajobs.c.job, ondelete="CASCADE"), key=True),
    column("program", Text, "path of the program, or its name", check="octet_length(program) BETWEEN 1 AND 1000"),
    column("program_size", BigInteger, "its size in bytes", check="program_size >= 0"),
    column("program_date", BigInteger, "when it was changed, in epoch seconds"),
    column("arguments", Text, "what follows it in the command", check="octet_length(arguments) <= 1000"),
    column("script", Text, "script by which clusters measure its rates", check="script <> ''"),
    column("processes", Integer, "how many processes it has", check="processes > 0"),
    column("iterations", BigInteger, "iterations of each process", check="iterations > 0"),
    column("sizes", ARRAY(Text), "sizes of its processes", check="sizes <> '{}'"),
    column("model", Text, "sync, async, or the name of a plug-in", check="model <> ''"),
    column("own_walltime", Boolean, "its user gave a walltime, with which it runs if there are no rates"),
    column("live", Boolean, "its processes are mapped; false: it runs without a map", default=True),
    column(
        "map",
        JSONB,
        "predicted seconds, and by cluster and type of nodes the cores and what they run; NULL: no place yet",
        optional=True,
    ),
    column("map_before", JSONB, "the same of its place before; NULL: it has not moved", optional=True),
    column(
        "measured_on",
        ARRAY(Text),
        "clusters that may measure its rates, and do not know yet that it is over",
        default="{}",
    ),
    Index("grid_programs_measured", "job", postgresql_where=text("measured_on <> '{}'")),
)

grid_components = table(
    "grid_components",
    "the components of grid jobs",
    column("job", BigInteger, "the job", ForeignKey(grid_jobs.c.id, ondelete="CASCADE"), key=True),
    column("number", Integer, "its number in the job, from 0 on", key=True, check="number >= 0"),
    column("cluster", Text, "the cluster asked for; NULL: any", ForeignKey(grid_clusters.c.name), optional=True),
    column("resources", Text, "what it asks for, as after -l and without a walltime", check="resources <> ''"),
    column("procs", Integer, "how many processors that is", check="procs > 0"),
    column("properties", Text, "filter, as after -p", default=""),
    column("types", ARRAY(Text), "types, as after -t", default="{}"),
    column("component_name", Text, "its name", default=""),
)

grid_transactions = table(
    "grid_transactions",
    "changes on clusters, which happen on all of them or on none",
    column("id", BigInteger, "number of the transaction", Identity(), key=True, check="id > 0"),
    column("kind", Text, "what changes", check="kind IN ('place', 'claim', 'reserve', 'move', 'amend')"),
    column("module", Text, "which module leads it", check="module <> ''"),
    column(
        "job",
        BigInteger,
        "the job; NULL: jobs of an array",
        ForeignKey(grid_jobs.c.id, ondelete="CASCADE"),
        optional=True,
    ),
    column("state", Text, "present state; grid_transitions says what may follow", default="Preparing"),
    column("began_at", INSTANT, "when", default=CLOCK),
    column("ttl", INTERVAL, "after which clusters drop what is prepared and not committed", optional=True),
    column("decided_at", INSTANT, "when it was decided, or given up", optional=True),
    column("committed", Boolean, "what was decided; NULL: nothing yet", optional=True),
    column("begin_at", INSTANT, "when its parts are to begin; NULL: when they can", optional=True),
    column("done_at", INSTANT, "when all its clusters knew", optional=True),
    column("message", Text, "why it was given up, or which cluster does not answer", default=""),
    column("word", Text, "part of its name on clusters: of this copy of the database alone", default=""),
    rule("grid_transactions_decided", "(decided_at IS NULL) = (committed IS NULL)"),
    rule("grid_transactions_open", "(state IN ('Preparing', 'Held')) = (committed IS NULL)"),
    rule("grid_transactions_outcome", "committed OR (state <> 'Committing')"),
    rule("grid_transactions_done", "(state = 'Done') = (done_at IS NOT NULL)"),
    Index("grid_transactions_open_of", "module", postgresql_where=text("state <> 'Done'")),
    Index("grid_transactions_job", "job"),
)

grid_outcomes = table(
    "grid_outcomes",
    "the clusters of a transaction, and which of them know how it ended",
    column(
        "transaction",
        BigInteger,
        "the transaction",
        ForeignKey(grid_transactions.c.id, ondelete="CASCADE"),
        key=True,
    ),
    column("cluster", Text, "the cluster", ForeignKey(grid_clusters.c.name), key=True),
    column("asked", Integer, "how often it was told how the transaction ended", default=0, check="asked >= 0"),
    column("known_at", INSTANT, "when it confirmed; NULL: not yet", optional=True),
    column("message", Text, "why it did not", default=""),
)

grid_parts = table(
    "grid_parts",
    "what stands for components on clusters",
    column("name", Text, "its name, unique among all parts", key=True, check="name <> ''"),
    column("job", BigInteger, "the job"),
    column("component", Integer, "number of the component"),
    column("cluster", Text, "the cluster", ForeignKey(grid_clusters.c.name)),
    column("kind", Text, "claim, queued, reserved or bag", check="kind IN ('claim', 'queued', 'reserved', 'bag')"),
    column("state", Text, "present state; grid_transitions says what may follow", default="Preparing"),
    column("cluster_job", Text, "the cluster's own id of it; empty: not known", default=""),
    column("transaction", BigInteger, "the last transaction that changed it", ForeignKey(grid_transactions.c.id)),
    column("walltime", INTERVAL, "walltime on this cluster", check=_LONGER_THAN_NOTHING),
    column("hosts", ARRAY(Text), "one a processor's host, once it started", default="{}"),
    column("made_at", INSTANT, "when", default=CLOCK),
    column("started_at", INSTANT, "when it started, by the cluster's clock", optional=True),
    column("ended_at", INSTANT, "when it ended, by the cluster's clock", optional=True),
    column("exit_status", Integer, "its exit status", optional=True),
    column("end_asked", INSTANT, "when its end was asked for, because its job is not to go on", optional=True),
    column("message", Text, "why it ended, or was given up", default=""),
    ForeignKeyConstraint(["job", "component"], [grid_components.c.job, grid_components.c.number], ondelete="CASCADE"),
    Index(
        "grid_parts_startable",
        "job",
        "component",
        unique=True,
        postgresql_where=text("state IN ('Committing', 'Waiting', 'Freezing', 'Running')"),
    ),
    Index("grid_parts_job", "job"),
    Index("grid_parts_transaction", "transaction"),
    Index("grid_parts_live", "cluster", "state", postgresql_where=text("state NOT IN ('Ended', 'Gone')")),
)

grid_bags = table(
    "grid_bags",
    "what jobs of kind bag ask for, and by when they are done",
    column("job", BigInteger, "the job", ForeignKey(grid_jobs.c.id, ondelete="CASCADE"), key=True),
    column("tasks", Integer, "how many tasks it has, over all clusters", check="tasks > 0"),
    column("deadline", INSTANT, "by when its user wants it to be done; NULL: as soon as can be", optional=True),
    column("strict", Boolean, "it is refused if the deadline cannot be met", default=False),
    column(
        "policy",
        Text,
        "by what its tasks are shared out",
        check="policy IN ('plb', 'dplb', 'dplbv2', 'nolb', 'slots')",
    ),
    column("used_policy", Text, "by what they were, as clusters told enough for it; empty: not yet", default=""),
    column("rounds", Integer, "how often offers were worse when they were taken", default=0, check="rounds >= 0"),
    column("told", JSONB, "by cluster what it offered last, or why it was left out", default="{}"),
    column("promise", INSTANT, "by when all its tasks are done; NULL: not every cluster has answered", optional=True),
    column("expected", INSTANT, "when its last task is done as clusters plan now", optional=True),
    column("version", Integer, "how often that changed", default=0, check="version >= 0"),
    column("profile", Text, "script by which clusters tell the seconds of a task; empty: none", default=""),
    column("profiled", JSONB, "these by cluster and type of nodes, and why some are not known", optional=True),
)

grid_bag_parts = table(
    "grid_bag_parts",
    "what clusters promised of bags, and what became of that",
    column("part", Text, "the part", ForeignKey(grid_parts.c.name, ondelete="CASCADE"), key=True),
    column("job", BigInteger, "the job", ForeignKey(grid_jobs.c.id, ondelete="CASCADE")),
    column("promised", INSTANT, "by when its tasks are done, as the cluster promised", optional=True),
    column("completion", INSTANT, "when its last task is done there as planned now; NULL: not told", optional=True),
    column("told", Integer, "version of the whole completion that its cluster knows", default=0, check="told >= 0"),
    Index("grid_bag_parts_job", "job"),
)

grid_bag_tasks = table(
    "grid_bag_tasks",
    "copies of tasks of bags on clusters",
    column("part", Text, "the part", ForeignKey(grid_bag_parts.c.part, ondelete="CASCADE"), key=True),
    column("task", Integer, "number of the task in its bag, from 1 on", key=True, check="task > 0"),
    column("job", BigInteger, "the job", ForeignKey(grid_jobs.c.id, ondelete="CASCADE")),
    column(
        "state",
        Text,
        "Asked: undecided; Live: it can start, or runs; Over; Failed; Lost with its cluster; Gone: another is to come",
        default="Asked",
        check="state IN ('Asked', 'Live', 'Over', 'Failed', 'Lost', 'Gone')",
    ),
    column("exit_status", Integer, "how it ended", optional=True),
    column("message", Text, "why it failed, or is lost", default=""),
    Index("grid_bag_tasks_one", "job", "task", unique=True, postgresql_where=text("state = 'Live'")),
    Index("grid_bag_tasks_job", "job", "state"),
)

grid_tries = table(
    "grid_tries",
    "when room is looked for before a deadline, and what was found",
    column("job", BigInteger, "the job", ForeignKey(grid_jobs.c.id, ondelete="CASCADE")),
    column("number", Integer, "number of the try, from 0 on", check="number >= 0"),
    column("due_at", INSTANT, "when room is to be looked for"),
    column("last", Boolean, "whether none follows", default=False),
    column("done_at", INSTANT, "when it was; NULL: not yet", optional=True),
    column(
        "outcome",
        Text,
        "claimed, no room or refused; empty: not yet",
        default="",
        check="outcome IN ('', 'claimed', 'no room', 'refused')",
    ),
    column("idle", JSONB, "idle processors by cluster, as they told", default="{}"),
    column("message", Text, "what was found", default=""),
    PrimaryKeyConstraint("job", "number"),
    Index("grid_tries_due", "due_at", postgresql_where=text("done_at IS NULL")),
)

grid_passes = table(
    "grid_passes",
    "reallocation passes: those that were made, and those that an admin asked for",
    column("id", BigInteger, "number of the pass", Identity(), key=True, check="id > 0"),
    column("asked_by", Text, "who asked for it; empty: its period was over", default=""),
    column("asked_at", INSTANT, "when it was asked for, or due", default=CLOCK),
    column("began_at", INSTANT, "when it began; NULL: not yet", optional=True),
    column("ended_at", INSTANT, "when it was over", optional=True),
    column("algorithm", Integer, "1 or 2", optional=True, check="algorithm IN (1, 2)"),
    column("heuristic", Text, "which chose the jobs", default=""),
    column("waiting", Integer, "how many jobs it looked at", default=0),
    column("moved", Integer, "how many it moved", default=0),
    column("message", Text, "why it moved fewer than it wanted, or nothing", default=""),
    Index("grid_passes_asked", "asked_at", postgresql_where=text("began_at IS NULL")),
)


def _what_came_of_it() -> tuple[Column[Any], ...]:
    """Return the columns of the outcome of a move."""
    outcomes = "outcome IN ('open', 'moved', 'given up')"
    return (
        column("outcome", Text, "moved, given up, or open", default="open", check=outcomes),
        column("message", Text, "why it was given up", default=""),
    )


grid_moves = table(
    "grid_moves",
    "moves of waiting jobs that passes decided",
    column("id", BigInteger, "number of the move", Identity(), key=True, check="id > 0"),
    column("pass", BigInteger, "the pass", ForeignKey(grid_passes.c.id), optional=True),
    column("at", INSTANT, "when it was decided", default=CLOCK),
    column("job", BigInteger, "the job", ForeignKey(grid_jobs.c.id, ondelete="CASCADE")),
    column("source", Text, "the cluster where it waited", ForeignKey(grid_clusters.c.name)),
    column("target", Text, "the cluster where it goes", ForeignKey(grid_clusters.c.name)),
    column("old_end", INSTANT, "its expected end where it waited; NULL: never", optional=True),
    column("new_end", INSTANT, "its expected end where it goes", optional=True),
    column("transaction", BigInteger, "the transaction", ForeignKey(grid_transactions.c.id), optional=True),
    *_what_came_of_it(),
    Index("grid_moves_job", "job"),
)

grid_shifts = table(
    "grid_shifts",
    "where jobs of kind metajob were moved after early ends",
    column("id", BigInteger, "number of the move", Identity(), key=True, check="id > 0"),
    column("at", INSTANT, "when it was decided to be tried", default=CLOCK),
    column("job", BigInteger, "the job", ForeignKey(grid_jobs.c.id, ondelete="CASCADE")),
    column("operation", Text, "shift or remap", check="operation IN ('shift', 'remap')"),
    column("idle_on", Text, "the cluster where a job ended early", check="idle_on <> ''"),
    column("old_start", INSTANT, "its start before"),
    column("old_end", INSTANT, "its end before"),
    column("old_parts", JSONB, "its parts before, by cluster"),
    column("new_start", INSTANT, "its start in the new place"),
    column("new_end", INSTANT, "its end in the new place"),
    column("new_parts", JSONB, "its parts in the new place, by cluster"),
    column("transaction", BigInteger, "the transaction", ForeignKey(grid_transactions.c.id)),
    *_what_came_of_it(),
    Index("grid_shifts_job", "job"),
)

grid_decisions = table(
    "grid_decisions",
    "what the broker decided and from what, so that it can be decided again (oarpy grid replay)",
    column("id", BigInteger, "number of the decision", Identity(), key=True, check="id > 0"),
    column("module", Text, "which module decided"),
    column("at", INSTANT, "at which instant", default=CLOCK),
    column("state", JSONB, "what the broker knew before"),
    column("events", JSONB, "what it was told, in order", check="jsonb_typeof(events) = 'array'"),
    column("actions", JSONB, "what it asked for", check="jsonb_typeof(actions) = 'array'"),
    Index("grid_decisions_at", "at"),
)
