-- Joins by the job's number go through the indexes of jobs: other alternatives are those of live jobs alone.
CREATE OR REPLACE VIEW oar_compat.alternatives AS
SELECT j.job_id AS number, j.job_id, shown.moldable_id, coalesce(j.walltime, shown.walltime) AS walltime,
       CASE WHEN j.ended_at IS NULL THEN 'CURRENT' ELSE 'LOG' END AS index
FROM public.jobs j CROSS JOIN LATERAL (
    SELECT m.moldable_id, m.walltime FROM public.moldable_descriptions m
    LEFT JOIN public.gantt_predictions g ON g.job_id = j.job_id AND g.moldable_id = m.moldable_id
    WHERE m.submission_id = j.submission_id
    ORDER BY (m.moldable_id = j.moldable_id) IS TRUE DESC, g.job_id IS NULL, m.position LIMIT 1
) shown
UNION ALL
SELECT -(j.job_id * 1000 + m.position), j.job_id, m.moldable_id, m.walltime, 'CURRENT'
FROM public.jobs j CROSS JOIN LATERAL (
    SELECT m.moldable_id, m.walltime FROM public.moldable_descriptions m
    LEFT JOIN public.gantt_predictions g ON g.job_id = j.job_id AND g.moldable_id = m.moldable_id
    WHERE m.submission_id = j.submission_id
    ORDER BY (m.moldable_id = j.moldable_id) IS TRUE DESC, g.job_id IS NULL, m.position LIMIT 1
) shown
JOIN public.moldable_descriptions m ON m.submission_id = j.submission_id AND m.moldable_id <> shown.moldable_id
WHERE is_live(j.state);
COMMENT ON VIEW oar_compat.alternatives IS 'what the views of alternatives are made of; OAR has no such table';
COMMENT ON COLUMN oar_compat.alternatives.number IS
    'the job''s number for the alternative that it has, is predicted to have, or else the first; others are negative';
COMMENT ON COLUMN oar_compat.alternatives.job_id IS 'the job';
COMMENT ON COLUMN oar_compat.alternatives.moldable_id IS
    'number of the alternative in oarpy; jobs of an array share it';
COMMENT ON COLUMN oar_compat.alternatives.walltime IS 'walltime of the job, once it is known';
COMMENT ON COLUMN oar_compat.alternatives.index IS 'CURRENT, or LOG once the job is over';
