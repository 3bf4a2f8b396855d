"""Programs of many processes: their measured rates, who measures them, and jobs whose processes are mapped by them."""

from __future__ import annotations

from typing import Any

from sqlalchemy import BigInteger, Boolean, Column, Double, Index, Integer, Text, text
from sqlalchemy.dialects.postgresql import ARRAY, JSONB

from oarpy.store.schema.columns import CLOCK, INSTANT, column, table
from oarpy.store.schema.jobs import of_job


def _program(*, key: bool = False) -> tuple[Column[Any], ...]:
    """Return the columns that identify a program; a changed file is another program."""
    return (
        # together with the others it fits into a key
        column("program", Text, "path of the program, or its name", key=key, check=_named("program", 1000)),
        column("program_size", BigInteger, "its size in bytes", key=key, check="program_size >= 0"),
        column("program_date", BigInteger, "when it was changed, in epoch seconds", key=key),
        column("arguments", Text, "what follows it in the command", key=key, check="octet_length(arguments) <= 1000"),
    )


def _named(name: str, longest: int) -> str:
    return f"octet_length({name}) BETWEEN 1 AND {longest}"


application_rates = table(
    "application_rates",
    "iterations a second that processes of programs make, as measured; a rate is of its user alone",
    column("user_name", Text, "whose it is", key=True, check=_named("user_name", 200)),
    *_program(key=True),
    column("size_name", Text, "size of the process", key=True, check=_named("size_name", 100)),
    column(
        "node_type", Text, "type of the node: value of scheduler.node_type", key=True, check=_named("node_type", 200)
    ),
    column("rate", Double, "iterations a second on one core", check="rate > 0"),
    column("measured_at", INSTANT, "when it was measured", default=CLOCK),
)

rate_measurements = table(
    "rate_measurements",
    "jobs that measure the rates of a program on one type of nodes",
    of_job("the job that measures", key=True),
    *_program(),
    column("sizes", ARRAY(Text), "sizes of processes that it measures", check="sizes <> '{}'"),
    column("node_type", Text, "type of its node"),
    column("failure", Text, "why it has no rates, as far as it said so", default=""),
    column(
        "awaited_by",
        ARRAY(Text),
        "calls of brokers whose jobs wait for its rates: name of the broker, and key of the call",
        default="{}",
    ),
)

mapped_jobs = table(
    "mapped_jobs",
    "jobs whose processes are mapped over unlike nodes, and the map that goes with the place of each",
    of_job("the job", key=True),
    *_program(),
    column("processes", Integer, "how many processes it has", check="processes > 0"),
    column("iterations", BigInteger, "iterations of each process", check="iterations > 0"),
    column("sizes", ARRAY(Text), "sizes of its processes", check="sizes <> '{}'"),
    column("model", Text, "sync, async, or the name of a plug-in", check="model <> ''"),
    column("cores", Integer, "how many cores it takes", check="cores > 0"),
    column("own_walltime", Boolean, "its user gave a walltime, with which it runs if there are no rates"),
    column("live", Boolean, "it is mapped as long as it waits; false: it is over, or runs without a map", default=True),
    column("rates_at", INSTANT, "when its rates changed", default=CLOCK),
    column(
        "seconds",
        Double,
        "how long it is predicted to run; NULL: it has no place yet",
        optional=True,
        check="seconds > 0",
    ),
    column("walltime", Integer, "the walltime that follows, in seconds", optional=True, check="walltime > 0"),
    column(
        "node_property", Text, "scheduler.node_type, by which they have types; empty: all have one type", default=""
    ),
    column("node_types", JSONB, "the cores that it has there, by type of node", optional=True),
    column(
        "assigned",
        JSONB,
        "by type of node, as its cores take turns: size, processes, seconds that one takes, how many a core has",
        optional=True,
    ),
    Index("mapped_jobs_live", "job_id", postgresql_where=text("live")),
)
