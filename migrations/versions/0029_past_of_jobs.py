"""Ended jobs are filed by month, in tables of the past, and reports read both.

Revision ID: 0029
"""

from __future__ import annotations

from alembic import op
from psycopg.sql import SQL
from sqlalchemy import BigInteger, CheckConstraint, Column, Date, Text
from sqlalchemy.dialects.postgresql import TIMESTAMP
from sqlalchemy.sql.elements import conv

from oarpy.store.past.tables import filed_tables
from oarpy.store.schema.columns import sound
from oarpy.store.schema.statements import driver_of, make

revision = "0029"
down_revision = "0028"

_VIEWS = (
    "assigned_amounts",
    "assigned_resources",
    "job_state_history",
    "job_types",
    "jobs",
    "lost_jobs",
    "moldable_alternatives",
)

_BEFORE = """
CREATE OR REPLACE VIEW oar_report.lost_jobs AS
SELECT l.job_id, l.attempt, l.user_name, l.network_address, l.resources, l.began_at, l.ended_at, l.exit_status,
       l.outcome, (l.resources * extract(epoch FROM l.ended_at - l.began_at))::double precision AS used_seconds,
       EXISTS (SELECT FROM public.jobs j WHERE j.job_id = l.job_id) AS known, g.found_at
FROM public.lost_jobs l JOIN public.generations g USING (generation);
CREATE OR REPLACE FUNCTION jobs_inserted() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT FROM new_jobs WHERE state NOT IN ('Hold', 'Waiting')) THEN
        RAISE EXCEPTION 'a job is born Hold or Waiting, not %',
            (SELECT state FROM new_jobs WHERE state NOT IN ('Hold', 'Waiting') LIMIT 1)
            USING ERRCODE = 'check_violation';
    END IF;
    INSERT INTO job_state_logs (job_id, state, during)
        SELECT job_id, state, tstzrange(clock_timestamp(), NULL) FROM new_jobs;
    PERFORM announce(array_agg(DISTINCT 'job ' || state)) FROM new_jobs;
    RETURN NULL;
END $$;
CREATE OR REPLACE TRIGGER events_noticed AFTER INSERT ON event_logs
    REFERENCING NEW TABLE AS new_events FOR EACH STATEMENT EXECUTE FUNCTION events_noticed();
CREATE OR REPLACE VIEW oar_report.assigned_amounts AS
SELECT a.job_id, j.user_name, j.project, j.queue_name, a.consumable, c.level, c.unit, a.block, a.amount,
       lower(a.during) AS assigned_at, upper(a.during) AS released_at,
       extract(epoch FROM coalesce(upper(a.during), now()) - lower(a.during))::double precision AS seconds
FROM public.assigned_amounts a JOIN public.jobs j USING (job_id)
    LEFT JOIN public.consumables c ON c.name = a.consumable;
CREATE OR REPLACE VIEW oar_report.assigned_resources AS
SELECT a.job_id, j.user_name, j.project, j.queue_name, a.resource_id, r.type AS resource_type, r.network_address,
       lower(stretch) AS assigned_at, upper(stretch) AS released_at,
       extract(epoch FROM coalesce(upper(stretch), now()) - lower(stretch))::double precision AS seconds, a.exclusive
FROM public.assigned_resources a JOIN public.jobs j USING (job_id) JOIN public.resources r USING (resource_id)
CROSS JOIN LATERAL unnest(a.during) stretch;
CREATE OR REPLACE VIEW oar_report.job_state_history AS
SELECT l.job_id, l.state, l.previous_state, t.event, t.who, lower(l.during) AS entered_at,
       upper(l.during) AS left_at,
       CASE WHEN s.final THEN NULL
            ELSE extract(epoch FROM coalesce(upper(l.during), now()) - lower(l.during))::double precision END AS seconds
FROM public.job_state_logs l JOIN public.job_states s USING (state)
LEFT JOIN public.job_transitions t ON (t.from_state, t.to_state) = (l.previous_state, l.state);
CREATE OR REPLACE VIEW oar_report.job_types AS
SELECT j.job_id, j.user_name, j.state, split_part(word, '=', 1) AS type,
       CASE WHEN strpos(word, '=') > 0 THEN substr(word, strpos(word, '=') + 1) END AS value
FROM public.jobs j CROSS JOIN LATERAL unnest(j.types) word;
CREATE OR REPLACE VIEW oar_report.jobs AS
SELECT j.job_id, j.array_id, j.array_index, j.job_name, j.user_name, j.project, j.queue_name, j.kind, j.types, j.state,
       j.message, j.exit_status, j.attempt, j.resubmit_of, j.reservation_start,
       j.submitted_at, j.started_at, j.ended_at,
       extract(epoch FROM coalesce(j.started_at, j.ended_at, now()) - j.submitted_at)::double precision AS wait_seconds,
       extract(epoch FROM coalesce(j.ended_at, now()) - j.started_at)::double precision AS run_seconds,
       extract(epoch FROM j.walltime)::double precision AS walltime_seconds,
       held.nodes, held.resources, held.cores,
       (held.cores * extract(epoch FROM coalesce(j.ended_at, now()) - j.started_at - stood.still) / 3600)
           ::double precision AS core_hours,
       (held.cores * extract(epoch FROM j.walltime) / 3600)::double precision AS asked_core_hours,
       extract(epoch FROM stood.still)::double precision AS suspended_seconds
FROM public.jobs j
CROSS JOIN LATERAL (
    SELECT count(DISTINCT r.network_address)::integer AS nodes, count(*)::integer AS resources,
           (count(DISTINCT r.core) + count(*) FILTER (WHERE r.core IS NULL))::integer AS cores
    FROM public.assigned_resources a JOIN public.resources r USING (resource_id)
    WHERE a.job_id = j.job_id AND r.type = 'default'
) held
CROSS JOIN LATERAL (SELECT j.suspended_time + coalesce(now() - j.suspended_at, interval '0') AS still) stood;
CREATE OR REPLACE VIEW oar_report.moldable_alternatives AS
SELECT j.job_id, m.moldable_id, m.position AS alternative,
       extract(epoch FROM m.walltime)::double precision AS walltime_seconds,
       coalesce(asked.request, '') || coalesce(amounts.request, '') AS request,
       coalesce(m.moldable_id = j.moldable_id, false) AS chosen
FROM public.jobs j JOIN public.moldable_descriptions m USING (submission_id)
LEFT JOIN LATERAL (
    SELECT string_agg(part.text, '+' ORDER BY part.position) AS request FROM (
        SELECT g.position, CASE WHEN g.filter = '' THEN '' ELSE '{' || g.filter || '}' END
            || coalesce((SELECT string_agg('/' || d.level || '='
                   || CASE d.count WHEN -1 THEN 'ALL' WHEN -2 THEN 'BEST' WHEN -3 THEN 'BESTHALF'
                      ELSE d.count::text END,
                   '' ORDER BY d.position)
               FROM public.resource_descriptions d WHERE d.group_id = g.group_id), '') AS text
        FROM public.resource_groups g WHERE g.moldable_id = m.moldable_id) part
) asked ON true
LEFT JOIN LATERAL (
    SELECT string_agg(',' || c.consumable || '=' || c.amount, '' ORDER BY c.position) AS request
    FROM public.consumption_descriptions c WHERE c.moldable_id = m.moldable_id
) amounts ON true;
"""
"""What reports and triggers were before."""


def upgrade() -> None:
    """Make the table of months, and have the reports read live tables and past."""
    op.create_table(
        "past_months",
        Column("month", Date, primary_key=True, comment="first day of the month"),
        Column("jobs", BigInteger, nullable=False, comment="how many jobs it has, or had when it was dropped"),
        Column("first_job", BigInteger, nullable=False, comment="lowest number of a job that was ever filed in it"),
        Column("last_job", BigInteger, nullable=False, comment="highest; no new job gets a number up to it"),
        Column("archive", Text, comment="file that has the month as it is now"),
        Column("archived_at", TIMESTAMP(timezone=True), comment="when that was written"),
        Column("dropped_at", TIMESTAMP(timezone=True), comment="when its rows were dropped"),
        CheckConstraint("isfinite(month) AND (extract(day FROM month) = 1)", name=conv("past_months_month_check")),
        CheckConstraint("jobs >= 0", name=conv("past_months_jobs_check")),
        *(
            CheckConstraint(sound(name, TIMESTAMP), name=conv(f"past_months_{name}_check"))
            for name in ("archived_at", "dropped_at")
        ),
        CheckConstraint("(archive IS NULL) = (archived_at IS NULL)", name=conv("archive_whole")),
        comment="the months that ended jobs were filed in; schema oar_past has their rows",
    )
    make(op.get_bind(), "functions", "jobs_inserted", "events_noticed")
    make(op.get_bind(), "views", *_VIEWS)


def downgrade() -> None:
    """Take that back; the jobs of the past are live rows again. Months that were dropped stay so."""
    connection = op.get_bind()
    connection.exec_driver_sql(_BEFORE, execution_options={"no_parameters": True})
    _bring_back()
    op.execute("DROP SCHEMA IF EXISTS oar_all CASCADE")
    op.execute("DROP SCHEMA oar_past CASCADE")
    op.drop_table("past_months")


def _bring_back() -> None:
    """Insert the rows of the past as they are: triggers of ours would announce and log them."""
    driver = driver_of(op.get_bind())
    for table in filed_tables(driver):
        for statement in (
            "ALTER TABLE {live} DISABLE TRIGGER USER",
            "INSERT INTO {live} ({columns}) OVERRIDING SYSTEM VALUE SELECT {columns} FROM {past}",
            "ALTER TABLE {live} ENABLE TRIGGER USER",
        ):
            driver.execute(SQL(statement).format(live=table.live(), past=table.past(), columns=table.column_list()))
