"""Bags of tasks: the promises to their users, every change of them, and how long tasks take."""

from __future__ import annotations

from sqlalchemy import BigInteger, Boolean, Double, ForeignKey, Identity, Index, Integer, Text, text
from sqlalchemy.dialects.postgresql import JSONB

from oarpy.store.schema.columns import CLOCK, INSTANT, NOW, column, rule, table

# Refers to no job, so that tasks may move to the past.
bags = table(
    "bags",
    "bags of equal tasks, each an array of jobs of type bag; by when all of them are done is promised",
    column("bag_id", BigInteger, "number of the bag: that of its first job, which names the array", key=True),
    column("user_name", Text, "who submitted it", check="user_name <> ''"),
    column("tasks", Integer, "how many tasks it has", check="tasks > 0"),
    column("deadline", INSTANT, "by when its user wants it to be done; NULL: as soon as can be", optional=True),
    column("strict", Boolean, "it is refused if the deadline cannot be met", default=False),
    column("submitted_at", INSTANT, "when it was submitted", default=NOW),
    column("promise", INSTANT, "by when all its tasks are done; NULL: it was not answered", optional=True),
    column("expected", INSTANT, "when all its tasks are done as planned now", optional=True),
    column("ended", INSTANT, "when its last task ended, or it was refused; NULL: it goes on", optional=True),
    column("profile", JSONB, "seconds of a task by type of nodes, as its broker told; NULL: none did", optional=True),
    Index("bags_live", "bag_id", postgresql_where=text("ended IS NULL")),
)

bag_changes = table(
    "bag_changes",
    "what became of the promises of bags, and why",
    column("change_id", BigInteger, "number of the change", Identity(always=True), key=True),
    column("bag_id", BigInteger, "the bag", ForeignKey(bags.c.bag_id, ondelete="CASCADE")),
    column("at", INSTANT, "when", default=CLOCK),
    column(
        "kind",
        Text,
        "PROMISED, REFUSED; IMPROVED or BROKEN: the promise changed; EXPECTED: the plan alone did; END",
        check="kind IN ('PROMISED', 'REFUSED', 'IMPROVED', 'BROKEN', 'EXPECTED', 'END')",
    ),
    column("promise", INSTANT, "the promise from then on; of a refused one when it could be had", optional=True),
    column("expected", INSTANT, "the end as planned then", optional=True),
    column("cause", Text, "why", default=""),
    Index("bag_changes_bag", "bag_id", "change_id"),
)

# Refers to no job either: it stays with its bag.
bag_profiles = table(
    "bag_profiles",
    "profiles of bags: how long a task takes on a type of nodes, as a job tells before the promise is made",
    column("job_id", BigInteger, "the job that takes it", key=True),
    column("bag_id", BigInteger, "the bag", ForeignKey(bags.c.bag_id, ondelete="CASCADE"), optional=True),
    column("node_type", Text, "type of its node: value of scheduler.node_type", check="node_type <> ''"),
    column("seconds", Double, "how long a task takes there; NULL: not told", optional=True, check="seconds > 0"),
    column("failure", Text, "why it was not told, as far as the job said so", default=""),
    column("broker", Text, "the broker that asked for it, before its bag is here; empty: none", default=""),
    column("profile", Text, "the broker's name for it", default=""),
    rule("bag_profiles_for_a_bag", "(bag_id IS NULL) = (broker <> '')"),
    Index("bag_profiles_bag", "bag_id"),
    Index("bag_profiles_broker", "broker", "profile", postgresql_where=text("broker <> ''")),
)
