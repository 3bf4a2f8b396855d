"""The resources that jobs hold, will hold and are predicted to hold."""

from __future__ import annotations

from typing import Any

from sqlalchemy import BigInteger, Boolean, Column, Double, ForeignKey, Index, Integer, Text, text
from sqlalchemy.dialects.postgresql import (
    ARRAY,
    INT4MULTIRANGE,
    INT8MULTIRANGE,
    INTERVAL,
    JSONB,
    TSTZMULTIRANGE,
    TSTZRANGE,
    ExcludeConstraint,
)

from oarpy.store.schema.columns import CLOCK, INSTANT, MANY, NOW, column, rule, table
from oarpy.store.schema.jobs import of_job
from oarpy.store.schema.platform import resources
from oarpy.store.schema.submissions import moldable_descriptions

# The holders for which a holder leaves room. A holder that shares takes a place of its own, guests have one place for
# all of them, and any other holder takes every place.
_PLACES = """(CASE
    WHEN NOT exclusive THEN int8range(job_id, job_id, '[]')
    WHEN guest THEN int8range(0, 0, '[]')
    ELSE int8range(0, NULL) END)"""

# An assignment is open until its job is over, or suspended.
assigned_resources = table(
    "assigned_resources",
    "who holds what, and who held it",
    of_job("the job", key=True),
    column("resource_id", Integer, "the resource", ForeignKey(resources.c.resource_id), key=True),
    column(
        "during",
        TSTZMULTIRANGE,
        "when it held it, without an upper end while it does; a range for each time, if it was suspended in between",
        check="NOT isempty(during)",
    ),
    column(
        "exclusive", Boolean, "whether nobody else may hold it meanwhile, but guests of those who share", default=True
    ),
    column("suspended", Boolean, "given back while the job is suspended: others may hold it", default=False),
    column(
        "guest",
        Boolean,
        "whether it may be beside holders that share: inside a container, or where a placeholder allows it",
        default=False,
    ),
    column("extension_id", BigInteger, "the extension that it came with last; NULL: with the start", optional=True),
    column("reclaim_at", INSTANT, "when it will be taken from the job, as others need it", optional=True),
    rule("held_or_given_back", "NOT (suspended AND upper_inf(during))"),
    rule("reclaimed_with_extension", "(reclaim_at IS NULL) OR (extension_id IS NOT NULL)"),
    ExcludeConstraint(
        ("resource_id", "="), ("during", "&&"), (text(_PLACES), "&&"), name="one_exclusive_holder", using="gist"
    ),
    Index("assigned_resources_held", "resource_id", postgresql_where=text("upper_inf(during) OR suspended")),
    Index("assigned_resources_reclaimed", "reclaim_at", postgresql_where=text("reclaim_at IS NOT NULL")),
)

exclusive_levels = table(
    "exclusive_levels",
    "levels of which a block goes to one job that asks for them at a time: the metascheduler writes its settings",
    column("level", Text, "the level, as requests name it", key=True),
    column("property", Text, "the property whose values are its blocks"),
)

held_blocks = table(
    "held_blocks",
    "blocks of exclusive levels that live jobs hold; triggers write them as resources are assigned and given back",
    of_job("the job", key=True),
    column("property", Text, "the property whose values are the blocks", key=True),
    column("block", Text, "the value", key=True),
    column("exclusive", Boolean, "whether nobody else may hold it, but guests of those who share", default=True),
    column("guest", Boolean, "whether it may be beside holders that share", default=False),
    column("suspended", Boolean, "given back while the job is suspended: others may hold it", default=False),
    ExcludeConstraint(
        ("property", "="),
        ("block", "="),
        (text(_PLACES), "&&"),
        name="one_holder_of_a_block",
        using="gist",
        where=text("NOT suspended"),
    ),
)

assigned_amounts = table(
    "assigned_amounts",
    "amounts of consumables that jobs hold or held; triggers write them when resources are assigned",
    of_job("the job", key=True),
    column("consumable", Text, "the consumable, which may be gone once the job is over", key=True),
    column("block", Text, "value of its level where the amount is", key=True),
    column("amount", BigInteger, "how much", check="amount > 0"),
    column("during", TSTZRANGE, "since when, and until when; open while the job is not over"),
    Index("assigned_amounts_held", "consumable", "block", postgresql_where=text("upper_inf(during)")),
)

reserved_resources = table(
    "reserved_resources",
    "what accepted advance reservations will hold",
    of_job("the reservation", key=True),
    column("resource_id", Integer, "the resource", ForeignKey(resources.c.resource_id), key=True),
    column("during", TSTZRANGE, "when; it goes along with the job's start", check="NOT isempty(during)"),
    column("exclusive", Boolean, "whether nobody else may hold it meanwhile", default=True),
    ExcludeConstraint(
        ("resource_id", "="), ("during", "&&"), name="one_exclusive_reservation", using="gist", where=text("exclusive")
    ),
)


def _reason_data() -> Column[Any]:
    return column(
        "reason_data",
        JSONB,
        "the same for programs; NULL where nothing but the words is known",
        optional=True,
        check="jsonb_typeof(reason_data) = 'object'",
    )


gantt_predictions = table(
    "gantt_predictions",
    "what the last scheduling pass found for each job that has not started",
    of_job("the job", key=True),
    column(
        "verdict",
        Text,
        "why it does not start now, or that it does",
        check="verdict IN ('starts', 'reserved', 'held', 'dependency', 'date', 'reservation', 'quota', "
        "'resources_busy', 'behind_higher_priority', 'resources_down', 'never')",
    ),
    column("reason", Text, "the same in words", default=""),
    column(
        "moldable_id",
        BigInteger,
        "the alternative that is predicted",
        ForeignKey(moldable_descriptions.c.moldable_id, ondelete="CASCADE"),
        optional=True,
    ),
    column("start_time", INSTANT, "predicted start, NULL without a prediction", optional=True),
    column("end_time", INSTANT, "predicted start plus walltime", optional=True),
    column("resources", INT4MULTIRANGE, "numbers of the predicted resources", default="{}"),
    _reason_data(),
    rule("gantt_predictions_check", "(start_time IS NULL) = (end_time IS NULL)"),
    rule("gantt_predictions_check1", "(start_time IS NULL) = (moldable_id IS NULL)"),
)

first_predictions = table(
    "first_predictions",
    "what jobs that had to wait were told of their start when a pass first foresaw one; it stays, to be compared",
    of_job("the job", key=True),
    column("made_at", INSTANT, "when that pass was"),
    column("planned_start", INSTANT, "start in its plan, by walltimes"),
    column("earliest_start", INSTANT, "begin of the interval that was told; NULL: too few past starts", optional=True),
    column("latest_start", INSTANT, "end of the interval", optional=True),
    column("learnt_from", Integer, "past starts that it was learnt from", default=0, check="learnt_from >= 0"),
    rule("planned_ahead", "planned_start >= made_at"),
    rule("interval_whole", "(earliest_start IS NULL) = (latest_start IS NULL)"),
    rule("interval_forward", "latest_start >= earliest_start"),
)

run_predictions = table(
    "run_predictions",
    "how long jobs were predicted to run when they started, where passes go by that; it stays, to be compared",
    of_job("the job", key=True),
    column("predictor", Text, "by what it was predicted", check="predictor <> ''"),
    column("seconds", Double, "how long", check="seconds > 0"),
    column("made_at", INSTANT, "when", default=CLOCK),
)

gpu_uses = table(
    "gpu_uses",
    "how busy the GPUs of jobs are or were, as their nodes told now and then while the jobs ran",
    of_job("the job", key=True),
    column("gpus", Integer, "how many it had at the last look", check="gpus > 0"),
    column("busy", Double, "how many of them were busy at the last look, those that were in part by that part"),
    column(
        "memory",
        BigInteger,
        "bytes in use on all of them at the last look; NULL: not told",
        optional=True,
        check="memory >= 0",
    ),
    column("memory_peak", BigInteger, "the most bytes in use on one of them", optional=True, check="memory_peak >= 0"),
    column("memory_total", BigInteger, "bytes that this one has", optional=True, check="memory_total >= 0"),
    column("seconds", Double, "for how long GPUs of the job were looked at, each GPU for itself"),
    column("busy_seconds", Double, "for how long they were busy"),
    column("looked_at", INSTANT, "when they were looked at last"),
    column("idle_since", INSTANT, "since when all of them are idle at each look; NULL: they are not", optional=True),
    column("warned_at", INSTANT, "when its user was told that", optional=True),
    rule("gpu_uses_busy", "(busy >= 0) AND (busy <= gpus)"),
    rule("gpu_uses_seconds", "(busy_seconds >= 0) AND (busy_seconds <= seconds)"),
)

scheduling_passes = table(
    "scheduling_passes",
    "the last scheduling pass, and what passes compute karma with; one row",
    column("only_row", Boolean, "always true: keeps the table at one row", default=True, key=True, check="only_row"),
    column("pass", BigInteger, "number of the pass", default=0, check=f"pass BETWEEN 0 AND {MANY}"),
    column("at", INSTANT, "when it was", default=NOW),
    column("seconds", Double, "how long it took", default=0),
    column("waiting", Integer, "how many jobs it looked at", default=0),
    column("karma_window", INTERVAL, "how far back karma looks", default="30 days"),
    column("karma_project", Double, "coefficient of what a project used beyond its target", default=0),
    column("karma_user", Double, "coefficient of what a user used beyond the target", default=2),
    column("karma_asked", Double, "coefficient of what a user asked for beyond the target", default=1),
    column("other_users_target", Double, "part of all use for each user who is not named, 0 to 1", default=0),
    column("other_projects_target", Double, "part of all use for each project that is not named, 0 to 1", default=0),
    column(
        "user_targets",
        JSONB,
        "parts of all use by user, 0 to 1",
        default="{}",
        check="jsonb_typeof(user_targets) = 'object'",
    ),
    column(
        "project_targets",
        JSONB,
        "parts of all use by project, 0 to 1",
        default="{}",
        check="jsonb_typeof(project_targets) = 'object'",
    ),
    column("seconds_spent", Double, "how long all passes took, in all", default=0),
    column(
        "jobs_started",
        BigInteger,
        "how many jobs passes have started, in all",
        default=0,
        check=f"jobs_started BETWEEN 0 AND {MANY}",
    ),
    column(
        "billing_weights",
        JSONB,
        "what an hour of each kind of resource is billed, as the settings say",
        default='{"core": 1}',
        check="jsonb_typeof(billing_weights) = 'object'",
    ),
)

# It refers to nothing, so that jobs may move to the past. Rows come by date, which an index of block ranges suits.
verdict_changes = table(
    "verdict_changes",
    "verdicts of passes, a row whenever that of a job changed (scheduler.verdict_history)",
    column("job_id", BigInteger, "the job"),
    column("at", INSTANT, "when a pass found it"),
    column("verdict", Text, "why it does not start now, or that it does"),
    column("reason", Text, "the same in words, as it was first"),
    column("start_time", INSTANT, "start foreseen then, NULL without a prediction", optional=True),
    column("queue_name", Text, "its queue"),
    column("queue_priority", Integer, "priority of the queue then"),
    column("queue_order", Text, "what ordered the queue then"),
    column("order_key", ARRAY(Double), "what it was ordered by: the least goes first", default="{}"),
    column("passed", INT8MULTIRANGE, "of a start: the jobs before it in the order that still waited", default="{}"),
    _reason_data(),
    Index("verdict_changes_job", "job_id", "at"),
    Index("verdict_changes_at", "at", postgresql_using="brin"),
)
