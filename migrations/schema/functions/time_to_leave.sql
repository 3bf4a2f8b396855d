-- How long a job may go on that has to give way: the time that it asked for to write a checkpoint, or the grace of its
-- queue or project. Jobs that are suspended instead need none, and best-effort jobs have their own time alone.
CREATE OR REPLACE FUNCTION time_to_leave(job jobs) RETURNS interval LANGUAGE sql STABLE AS $$
    SELECT greatest(job.checkpoint, coalesce((
        SELECT g.grace * interval '1 second' FROM giving_way(job) g WHERE g.manner <> 'suspend'), interval '0'))
$$;
