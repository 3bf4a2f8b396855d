CREATE OR REPLACE VIEW oar_report.moldable_alternatives AS
SELECT j.job_id, m.moldable_id, m.position AS alternative,
       extract(epoch FROM m.walltime)::double precision AS walltime_seconds,
       coalesce(asked.request, '') || coalesce(amounts.request, '') AS request,
       coalesce(m.moldable_id = j.moldable_id, false) AS chosen
FROM oar_all.jobs j JOIN oar_all.moldable_descriptions m USING (month, submission_id)
LEFT JOIN LATERAL (
    SELECT string_agg(part.text, '+' ORDER BY part.position) AS request FROM (
        SELECT g.position, CASE WHEN g.filter = '' THEN '' ELSE '{' || g.filter || '}' END
            || coalesce((SELECT string_agg('/' || d.level || '='
                   || CASE d.count WHEN -1 THEN 'ALL' WHEN -2 THEN 'BEST' WHEN -3 THEN 'BESTHALF' ELSE d.count::text END,
                   '' ORDER BY d.position)
               FROM oar_all.resource_descriptions d WHERE d.month = m.month AND d.group_id = g.group_id), '') AS text
        FROM oar_all.resource_groups g WHERE g.month = m.month AND g.moldable_id = m.moldable_id) part
) asked ON true
LEFT JOIN LATERAL (
    SELECT string_agg(',' || c.consumable || '=' || c.amount, '' ORDER BY c.position) AS request
    FROM oar_all.consumption_descriptions c WHERE c.month = m.month AND c.moldable_id = m.moldable_id
) amounts ON true;
COMMENT ON VIEW oar_report.moldable_alternatives IS 'what each job asked for: one row for each -l option';
COMMENT ON COLUMN oar_report.moldable_alternatives.job_id IS 'the job';
COMMENT ON COLUMN oar_report.moldable_alternatives.moldable_id IS 'number of the alternative, shared by the jobs of an array';
COMMENT ON COLUMN oar_report.moldable_alternatives.alternative IS 'its place among the job''s alternatives, from 0';
COMMENT ON COLUMN oar_report.moldable_alternatives.walltime_seconds IS 'its walltime';
COMMENT ON COLUMN oar_report.moldable_alternatives.request IS 'the request in the grammar of oarsub -l';
COMMENT ON COLUMN oar_report.moldable_alternatives.chosen IS 'whether the scheduler chose it';
