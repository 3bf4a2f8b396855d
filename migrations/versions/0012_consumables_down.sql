CREATE OR REPLACE VIEW oar_report.moldable_alternatives AS
SELECT j.job_id, m.moldable_id, m.position AS alternative,
       extract(epoch FROM m.walltime)::double precision AS walltime_seconds,
       coalesce(asked.request, '') AS request, coalesce(m.moldable_id = j.moldable_id, false) AS chosen
FROM public.jobs j JOIN public.moldable_descriptions m USING (submission_id)
LEFT JOIN LATERAL (
    SELECT string_agg(part.text, '+' ORDER BY part.position) AS request FROM (
        SELECT g.position, CASE WHEN g.filter = '' THEN '' ELSE '{' || g.filter || '}' END
            || coalesce((SELECT string_agg('/' || d.level || '='
                   || CASE d.count WHEN -1 THEN 'ALL' WHEN -2 THEN 'BEST' WHEN -3 THEN 'BESTHALF' ELSE d.count::text END,
                   '' ORDER BY d.position)
               FROM public.resource_descriptions d WHERE d.group_id = g.group_id), '') AS text
        FROM public.resource_groups g WHERE g.moldable_id = m.moldable_id) part
) asked ON true;
DROP VIEW oar_report.assigned_amounts;
DROP VIEW oar_report.consumables;

DROP TRIGGER held_blocks_stay ON resources;
DROP TRIGGER jobs_released ON jobs;
DROP TRIGGER amounts_assigned ON assigned_resources;
DROP TABLE assigned_amounts, consumption_descriptions, consumable_capacities, consumables;
DROP FUNCTION hold_amounts, amounts_moved, amounts_assigned, amounts_released, held_capacities_stay, held_blocks_stay,
    capacities_changed;
