"""The rights of brokers on a cluster, and their use: grants, parts, transactions, events, gates of launches."""

from __future__ import annotations

from sqlalchemy import BigInteger, Identity, Index, Integer, Text, text
from sqlalchemy.dialects.postgresql import ARRAY, INTERVAL, JSONB

from oarpy.store.schema.columns import AUTHOR, CLOCK, INSTANT, NOW, column, rule, table
from oarpy.store.schema.jobs import of_job

_BROKER = "broker ~ '^[A-Za-z0-9_][A-Za-z0-9_.-]{0,62}$'"

grid_grants = table(
    "grid_grants",
    "for whom brokers of several clusters may act here, and how far",
    column("broker", Text, "name of the broker", key=True, check=_BROKER),
    column("broker_user", Text, "its user", key=True, check="broker_user <> ''"),
    column("local_user", Text, "who that is here", check="local_user NOT IN ('', 'root')"),
    column("queues", ARRAY(Text), "queues that it may use; empty: those that the user may", default="{}"),
    column(
        "most_resources",
        Integer,
        "resources of a part at most; NULL: no limit",
        optional=True,
        check="most_resources > 0",
    ),
    column(
        "longest_walltime",
        INTERVAL,
        "walltime of a part at most; NULL: no limit",
        optional=True,
        check="EXTRACT(epoch FROM longest_walltime) > 0",
    ),
    column("granted_by", Text, "who granted it", default=AUTHOR),
    column("granted_at", INSTANT, "when", default=NOW),
)

door_moves = table(
    "door_moves",
    "the allowed moves between states of brokers' parts and transactions, for every SQL client",
    column("subject", Text, "what moves: part or transaction", key=True),
    column("from_state", Text, "state before", key=True),
    column("to_state", Text, "state after", key=True),
    column("event", Text, "when such a move is made"),
)

door_transactions = table(
    "door_transactions",
    "transactions of brokers, as far as they concern this cluster",
    column("broker", Text, "name of the broker", key=True, check=_BROKER),
    column("transaction", Text, "its name for the transaction", key=True, check="transaction <> ''"),
    column(
        "state",
        Text,
        "present state; door_moves says what may follow",
        default="Prepared",
        check="state IN ('Prepared', 'Committed', 'Aborted')",
    ),
    column("at", INSTANT, "when it was first heard of", default=NOW),
    Index("door_transactions_at", "at"),
)

door_parts = table(
    "door_parts",
    "jobs that brokers have here, as parts of jobs on several clusters",
    column("broker", Text, "name of the broker", key=True, check=_BROKER),
    column("part", Text, "its name for the part", key=True, check="part <> ''"),
    of_job("the job that it is; of a bag its first task"),
    column(
        "kind",
        Text,
        "claim: holds idle resources; queued: waits in its queue; reserved: holds from a date on; bag: tasks of a bag",
        check="kind IN ('claim', 'queued', 'reserved', 'bag')",
    ),
    column(
        "state",
        Text,
        "present state; door_moves says what may follow",
        default="Prepared",
        check="state IN ('Prepared', 'Committed', 'Frozen', 'Aborted')",
    ),
    column("transaction", Text, "the transaction that made it, or froze it last", check="transaction <> ''"),
    column("begin_at", INSTANT, "when it is to begin; NULL: when it can", optional=True),
    column("walltime", INTERVAL, "for how long it runs at most", check="EXTRACT(epoch FROM walltime) > 0"),
    column("made_at", INSTANT, "when it was asked for", default=CLOCK),
    column("held_at", INSTANT, "since when the broker can count on it; NULL: it is being made", optional=True),
    column("lapses_at", INSTANT, "when it lapses without a commit; NULL: it does not", optional=True),
    column("hosts", ARRAY(Text), "hosts of all components, as the broker told", default="{}"),
    column("instead_of", BigInteger, "the reservation whose place it is to take, or took", optional=True),
    column("tasks", ARRAY(Integer), "of a bag: the numbers that its tasks have over all clusters", default="{}"),
    column("offer", Text, "of a bag: the offer that it takes up; empty: none", default=""),
    column("completion", INSTANT, "of a bag: when it is done over all clusters, as its broker told", optional=True),
    column("completion_version", Integer, "number of that message", default=0, check="completion_version >= 0"),
    column("process_map", ARRAY(Text), "processes of components on other clusters, as the broker told", default="{}"),
    rule("door_parts_tasks_of_bag", "(tasks = '{}') = (kind <> 'bag')"),
    rule("door_parts_reserved_instead", "(instead_of IS NULL) OR (kind = 'reserved')"),
    rule("door_parts_lapse_undecided", "(lapses_at IS NOT NULL) = (state IN ('Prepared', 'Frozen'))"),
    rule("door_parts_begin_unless_queued", "(begin_at IS NULL) = (kind IN ('queued', 'bag'))"),
    rule("door_parts_held_when_committed", "(state NOT IN ('Committed', 'Frozen')) OR (held_at IS NOT NULL)"),
    Index("door_parts_job", "job_id", unique=True),
    Index("door_parts_transaction", "broker", "transaction"),
    Index("door_parts_offer", "broker", "offer", unique=True, postgresql_where=text("offer <> ''")),
    Index("door_parts_undecided", "lapses_at", postgresql_where=text("lapses_at IS NOT NULL")),
    Index(
        "door_parts_amending",
        "instead_of",
        postgresql_where=text("instead_of IS NOT NULL AND lapses_at IS NOT NULL"),
    ),
)

door_calls = table(
    "door_calls",
    "calls of brokers that were carried out, so that one asked again gets the same answer",
    column("broker", Text, "name of the broker", key=True, check=_BROKER),
    column("key", Text, "what the broker calls the call", key=True, check="key <> ''"),
    column("call", Text, "what it was"),
    column("answer", JSONB, "what was answered"),
    column("at", INSTANT, "when", default=NOW),
    Index("door_calls_at", "at"),
)

door_events = table(
    "door_events",
    "what happened to parts of brokers; written by triggers",
    column("event_id", BigInteger, "number of the event here", Identity(), key=True),
    column("broker", Text, "name of the broker"),
    column("number", BigInteger, "its number for the broker, given when it is first told", optional=True),
    column("part", Text, "the part; empty of a plan"),
    column(
        "kind",
        Text,
        "what happened",
        check="kind IN ('started', 'ended', 'failed', 'lost', 'evicted', 'lapsed', 'idle', 'task', 'completion',"
        " 'changed')",
    ),
    column("at", INSTANT, "when", default=CLOCK),
    of_job("its job; NULL of a plan", optional=True),
    column("hosts", ARRAY(Text), "of one that started: the host of each of its resources", default="{}"),
    column("exit_status", Integer, "wait status of its command", optional=True),
    column("reason", Text, "why, of one that did not end by itself", default=""),
    column("task", Integer, "number of the task that is over", optional=True),
    column("completion", INSTANT, "when the last task of its bag is done here, as planned then", optional=True),
    column("plan", BigInteger, "number of the plan that was made since offers were", optional=True),
    rule("door_events_of_part", "(kind = 'changed') = (job_id IS NULL)"),
    rule("door_events_of_plan", "(kind = 'changed') = (plan IS NOT NULL)"),
    Index("door_events_job", "job_id"),
    Index("door_events_number", "broker", "number", unique=True, postgresql_where=text("number IS NOT NULL")),
    Index("door_events_untold", "broker", "event_id", postgresql_where=text("number IS NULL")),
)

door_offers = table(
    "door_offers",
    "brokers that got offers lately, and hear of newer plans",
    column("broker", Text, "name of the broker", key=True, check=_BROKER),
    column("plan", BigInteger, "number of the plan that the broker knows"),
    column("until", INSTANT, "until when its offers hold"),
    column("told_at", INSTANT, "when it was last told of a newer plan; NULL: never", optional=True),
)

launch_gates = table(
    "launch_gates",
    "jobs that hold their resources and are not launched before a date; gone once they are",
    of_job("the job", key=True),
    column("expected_at", INSTANT, "when it is to begin, which is planned with"),
    column("opens_at", INSTANT, "from when on it may be launched; NULL: not yet allowed", optional=True),
    column("walltime", INTERVAL, "for how long it runs then, at most", check="EXTRACT(epoch FROM walltime) > 0"),
    column(
        "lapses_at",
        INSTANT,
        "its broker opens it when all parts are ready, until then; NULL: a date does",
        optional=True,
    ),
)
