"""How busy GPUs of jobs were is kept, and shown beside their processors and memory.

Revision ID: 0090
"""

from __future__ import annotations

from alembic import op

from oarpy.store.schema.statements import follow, make

revision = "0090"
down_revision = "0089"

_TABLE = """
CREATE TABLE gpu_uses (
    job_id BIGINT NOT NULL,
    gpus INTEGER NOT NULL CONSTRAINT gpu_uses_gpus_check CHECK (gpus > 0),
    busy DOUBLE PRECISION NOT NULL CONSTRAINT gpu_uses_busy_check
        CHECK (busy BETWEEN -9007199254740992 AND 9007199254740992),
    memory BIGINT CONSTRAINT gpu_uses_memory_check CHECK (memory >= 0),
    memory_peak BIGINT CONSTRAINT gpu_uses_memory_peak_check CHECK (memory_peak >= 0),
    memory_total BIGINT CONSTRAINT gpu_uses_memory_total_check CHECK (memory_total >= 0),
    seconds DOUBLE PRECISION NOT NULL CONSTRAINT gpu_uses_seconds_check
        CHECK (seconds BETWEEN -9007199254740992 AND 9007199254740992),
    busy_seconds DOUBLE PRECISION NOT NULL CONSTRAINT gpu_uses_busy_seconds_check
        CHECK (busy_seconds BETWEEN -9007199254740992 AND 9007199254740992),
    looked_at TIMESTAMP WITH TIME ZONE NOT NULL CONSTRAINT gpu_uses_looked_at_check
        CHECK ((looked_at >= TIMESTAMPTZ '1970-01-01 00:00:00+00')
        AND (looked_at < TIMESTAMPTZ '3000-01-01 00:00:00+00')),
    idle_since TIMESTAMP WITH TIME ZONE CONSTRAINT gpu_uses_idle_since_check
        CHECK ((idle_since >= TIMESTAMPTZ '1970-01-01 00:00:00+00')
        AND (idle_since < TIMESTAMPTZ '3000-01-01 00:00:00+00')),
    warned_at TIMESTAMP WITH TIME ZONE CONSTRAINT gpu_uses_warned_at_check
        CHECK ((warned_at >= TIMESTAMPTZ '1970-01-01 00:00:00+00')
        AND (warned_at < TIMESTAMPTZ '3000-01-01 00:00:00+00')),
    CONSTRAINT gpu_uses_pkey PRIMARY KEY (job_id),
    CONSTRAINT gpu_uses_busy CHECK ((busy >= 0) AND (busy <= gpus)),
    CONSTRAINT gpu_uses_seconds CHECK ((busy_seconds >= 0) AND (busy_seconds <= seconds)),
    CONSTRAINT gpu_uses_job_id_fkey FOREIGN KEY(job_id) REFERENCES jobs (job_id) ON DELETE CASCADE
);
COMMENT ON TABLE gpu_uses IS
    'how busy the GPUs of jobs are or were, as their nodes told now and then while the jobs ran';
COMMENT ON COLUMN gpu_uses.job_id IS 'the job';
COMMENT ON COLUMN gpu_uses.gpus IS 'how many it had at the last look';
COMMENT ON COLUMN gpu_uses.busy IS
    'how many of them were busy at the last look, those that were in part by that part';
COMMENT ON COLUMN gpu_uses.memory IS 'bytes in use on all of them at the last look; NULL: not told';
COMMENT ON COLUMN gpu_uses.memory_peak IS 'the most bytes in use on one of them';
COMMENT ON COLUMN gpu_uses.memory_total IS 'bytes that this one has';
COMMENT ON COLUMN gpu_uses.seconds IS 'for how long GPUs of the job were looked at, each GPU for itself';
COMMENT ON COLUMN gpu_uses.busy_seconds IS 'for how long they were busy';
COMMENT ON COLUMN gpu_uses.looked_at IS 'when they were looked at last';
COMMENT ON COLUMN gpu_uses.idle_since IS 'since when all of them are idle at each look; NULL: they are not';
COMMENT ON COLUMN gpu_uses.warned_at IS 'when its user was told that';
"""
_FORMER = """
CREATE OR REPLACE VIEW oar_report.efficiency AS
SELECT j.job_id, j.array_id, j.job_name, j.user_name, j.project, j.queue_name, j.state, j.started_at, j.ended_at,
       held.nodes, held.cores, ran.seconds AS run_seconds,
       extract(epoch FROM j.walltime)::double precision AS walltime_seconds,
       had.core_seconds, j.cpu_seconds, j.cpu_seconds / nullif(had.core_seconds, 0) AS cpu_efficiency,
       j.memory_peak AS memory_peak_bytes, asked.bytes AS memory_asked_bytes,
       j.memory_peak / nullif(asked.bytes, 0)::double precision AS memory_efficiency
FROM oar_all.jobs j
CROSS JOIN LATERAL (
    SELECT count(DISTINCT r.network_address)::integer AS nodes,
           (count(DISTINCT r.core) + count(*) FILTER (WHERE r.core IS NULL))::integer AS cores
    FROM oar_all.assigned_resources a JOIN public.resources r USING (resource_id)
    WHERE a.month = j.month AND a.job_id = j.job_id AND r.type = 'default'
) held
CROSS JOIN LATERAL (
    SELECT extract(epoch FROM greatest(j.ended_at - j.started_at - j.suspended_time, interval '0'))::double precision
           AS seconds
) ran
-- A job that was resized had some of its cores for a part of its run.
LEFT JOIN LATERAL (
    SELECT sum(extract(epoch FROM upper(part) - lower(part))) AS seconds
    FROM (
        SELECT range_agg(a.during) * tstzmultirange(tstzrange(j.started_at, j.ended_at)) AS during
        FROM oar_all.assigned_resources a JOIN public.resources r USING (resource_id)
        WHERE a.month = j.month AND a.job_id = j.job_id AND r.type = 'default'
        GROUP BY r.core, CASE WHEN r.core IS NULL THEN r.resource_id END
    ) core CROSS JOIN LATERAL unnest(core.during) part
) resized ON j.started_at < j.ended_at
    AND EXISTS (SELECT FROM oar_all.resizes z WHERE z.month = j.month AND z.job_id = j.job_id)
CROSS JOIN LATERAL (
    SELECT coalesce(resized.seconds::double precision, held.cores * ran.seconds) AS core_seconds
) had
CROSS JOIN LATERAL (
    SELECT max(m.amount)::bigint AS bytes FROM oar_all.assigned_amounts m
    WHERE m.month = j.month AND m.job_id = j.job_id AND m.consumable = 'memory'
) asked
WHERE j.cpu_seconds IS NOT NULL AND j.started_at IS NOT NULL AND j.ended_at IS NOT NULL;
COMMENT ON VIEW oar_report.efficiency IS
    'finished jobs whose use was measured on their nodes: CPU time against cores, memory against what was asked';
COMMENT ON COLUMN oar_report.efficiency.job_id IS 'the job''s number';
COMMENT ON COLUMN oar_report.efficiency.array_id IS
    'number of the first job of its array; its own number for a single job';
COMMENT ON COLUMN oar_report.efficiency.job_name IS 'name given by the user, empty if none';
COMMENT ON COLUMN oar_report.efficiency.user_name IS 'who submitted it';
COMMENT ON COLUMN oar_report.efficiency.project IS 'project that it counts for';
COMMENT ON COLUMN oar_report.efficiency.queue_name IS 'queue that it was in';
COMMENT ON COLUMN oar_report.efficiency.state IS 'Terminated or Error';
COMMENT ON COLUMN oar_report.efficiency.started_at IS 'when its command started';
COMMENT ON COLUMN oar_report.efficiency.ended_at IS 'when it reached its final state';
COMMENT ON COLUMN oar_report.efficiency.nodes IS 'nodes that it held';
COMMENT ON COLUMN oar_report.efficiency.cores IS 'distinct cores among them; a resource without a core counts as one';
COMMENT ON COLUMN oar_report.efficiency.run_seconds IS 'from start to end, without the time for which it was suspended';
COMMENT ON COLUMN oar_report.efficiency.walltime_seconds IS 'its walltime';
COMMENT ON COLUMN oar_report.efficiency.core_seconds IS 'seconds for which it had each core and ran';
COMMENT ON COLUMN oar_report.efficiency.cpu_seconds IS 'user and system time of its processes, on all its nodes';
COMMENT ON COLUMN oar_report.efficiency.cpu_efficiency IS
    'CPU seconds by core seconds, 1 when every core was busy; NULL when it held none';
COMMENT ON COLUMN oar_report.efficiency.memory_peak_bytes IS
    'the most memory that its processes had on one node, NULL when nobody measured it';
COMMENT ON COLUMN oar_report.efficiency.memory_asked_bytes IS
    'what it held of the consumable memory on one node, NULL without';
COMMENT ON COLUMN oar_report.efficiency.memory_efficiency IS 'memory peak by memory asked, NULL without';
"""


def upgrade() -> None:
    """Make the table, and the view anew."""
    op.execute(_TABLE)
    make(op.get_bind(), "views", "efficiency")


def downgrade() -> None:
    """Forget how busy GPUs were."""
    op.execute("DROP VIEW IF EXISTS oar_report.efficiency; DROP TABLE gpu_uses")
    follow(op.get_bind())
    op.get_bind().exec_driver_sql(_FORMER, execution_options={"no_parameters": True})
