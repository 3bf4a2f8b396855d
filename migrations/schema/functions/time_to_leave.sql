-- How long a job may go on that has to give way: the time that it asked for to write a checkpoint, or the grace of its
-- queue. Jobs that are suspended instead need none, and best-effort jobs have their own time alone.
CREATE OR REPLACE FUNCTION time_to_leave(job jobs) RETURNS interval LANGUAGE sql STABLE AS $$
    SELECT greatest(job.checkpoint, coalesce((
        SELECT q.grace * interval '1 second' FROM queues q
        WHERE q.queue_name = job.queue_name AND q.gives_way_to <> '{}' AND q.manner <> 'suspend'
          AND NOT 'besteffort' = ANY (job.types)), interval '0'))
$$;
