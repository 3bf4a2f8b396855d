CREATE OR REPLACE VIEW oar_report.promises AS
SELECT b.bag_id, b.user_name, b.tasks, b.submitted_at, b.deadline, b.strict, c.refused,
       c.promised_at, c.promised, b.promise, CASE WHEN NOT c.refused THEN b.ended END AS completed,
       extract(epoch FROM c.promised - coalesce(b.ended, b.promise))::double precision AS improved_seconds,
       c.improvements, c.broken, coalesce(c.broken_because, '') AS broken_because
FROM bags b
CROSS JOIN LATERAL (
    SELECT coalesce(bool_or(kind = 'REFUSED'), false) AS refused,
           min(at) FILTER (WHERE kind = 'PROMISED') AS promised_at,
           (array_agg(promise ORDER BY change_id) FILTER (WHERE kind = 'PROMISED'))[1] AS promised,
           count(*) FILTER (WHERE kind = 'IMPROVED') AS improvements,
           count(*) FILTER (WHERE kind = 'BROKEN') AS broken,
           (array_agg(cause ORDER BY change_id) FILTER (WHERE kind = 'BROKEN'))[1] AS broken_because
    FROM bag_changes c WHERE c.bag_id = b.bag_id
) c;
COMMENT ON VIEW oar_report.promises IS 'bags of tasks: by when they were promised to be done, when they were, and what broke promises';
COMMENT ON COLUMN oar_report.promises.bag_id IS 'number of the bag: that of its first job';
COMMENT ON COLUMN oar_report.promises.user_name IS 'whose it is';
COMMENT ON COLUMN oar_report.promises.tasks IS 'how many tasks it has';
COMMENT ON COLUMN oar_report.promises.submitted_at IS 'when it was submitted';
COMMENT ON COLUMN oar_report.promises.deadline IS 'by when its user wanted it to be done, if there was such a date';
COMMENT ON COLUMN oar_report.promises.strict IS 'whether it was to be refused if the deadline could not be met';
COMMENT ON COLUMN oar_report.promises.refused IS 'whether it was refused';
COMMENT ON COLUMN oar_report.promises.promised_at IS 'when it got its promise';
COMMENT ON COLUMN oar_report.promises.promised IS 'by when it was promised to be done, at first';
COMMENT ON COLUMN oar_report.promises.promise IS 'the promise as it is now, or was last';
COMMENT ON COLUMN oar_report.promises.completed IS 'when its last task ended; NULL while it goes on';
COMMENT ON COLUMN oar_report.promises.improved_seconds IS 'by how much it was done, or is promised now, before the first promise; negative: after it';
COMMENT ON COLUMN oar_report.promises.improvements IS 'how often an earlier date was told';
COMMENT ON COLUMN oar_report.promises.broken IS 'how often a promise was broken';
COMMENT ON COLUMN oar_report.promises.broken_because IS 'why it was broken the first time';
