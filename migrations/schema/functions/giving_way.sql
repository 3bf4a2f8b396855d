-- How a job gives way that is not best-effort: as its queue says, else as its project or the next one above it says.
-- No row: it gives way to nobody. Who gives way to whom is for passes.
CREATE OR REPLACE FUNCTION giving_way(job jobs) RETURNS TABLE (manner text, grace integer, grace_signal smallint)
LANGUAGE sql STABLE AS $$
    WITH RECURSIVE line (place, parent, gives_way_to, manner, grace, grace_signal) AS (
        SELECT 1, p.parent, p.gives_way_to, p.manner, p.grace, p.grace_signal FROM projects p
        WHERE p.project = job.project AND EXISTS (SELECT FROM projects o WHERE o.gives_way_to <> '{}')
        UNION ALL
        SELECT line.place + 1, p.parent, p.gives_way_to, p.manner, p.grace, p.grace_signal
        FROM line JOIN projects p ON p.project = line.parent
    ), said AS (
        SELECT 0 AS place, q.manner, q.grace, q.grace_signal FROM queues q
        WHERE q.queue_name = job.queue_name AND q.gives_way_to <> '{}'
        UNION ALL
        SELECT l.place, l.manner, l.grace, l.grace_signal FROM line l WHERE l.gives_way_to <> '{}'
    )
    SELECT s.manner, s.grace, s.grace_signal FROM said s
    WHERE NOT 'besteffort' = ANY (job.types) AND job.queue_name <> 'besteffort' ORDER BY s.place LIMIT 1
$$;
