-- How long a job may go on that has to give way: the time that it asked for to write a checkpoint, or the grace of its
-- queue or project if that is longer. A job that is suspended has the grace alone, best-effort jobs their own time.
CREATE OR REPLACE FUNCTION time_to_leave(job jobs) RETURNS interval LANGUAGE sql STABLE AS $$
    SELECT coalesce((
        SELECT greatest(CASE WHEN g.manner <> 'suspend' THEN job.checkpoint END, g.grace * interval '1 second')
        FROM giving_way(job) g), job.checkpoint)
$$;
