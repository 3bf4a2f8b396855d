-- Views for analysts. Their names and columns are stable; what lies below them may change.
-- Durations are in seconds, times are timestamptz, "not yet" is NULL.

CREATE SCHEMA oar_report;
COMMENT ON SCHEMA oar_report IS 'stable views over jobs, nodes and accounting; grant USAGE on it and SELECT on its views';

CREATE VIEW oar_report.jobs AS
SELECT j.job_id, j.array_id, j.array_index, j.job_name, j.user_name, j.project, j.queue_name, j.kind, j.types, j.state,
       j.message, j.exit_status, j.attempt, j.resubmit_of, j.reservation_start,
       j.submitted_at, j.started_at, j.ended_at,
       extract(epoch FROM coalesce(j.started_at, j.ended_at, now()) - j.submitted_at)::double precision AS wait_seconds,
       extract(epoch FROM coalesce(j.ended_at, now()) - j.started_at)::double precision AS run_seconds,
       extract(epoch FROM j.walltime)::double precision AS walltime_seconds,
       held.nodes, held.resources, held.cores,
       (held.cores * extract(epoch FROM coalesce(j.ended_at, now()) - j.started_at) / 3600)::double precision
           AS core_hours,
       (held.cores * extract(epoch FROM j.walltime) / 3600)::double precision AS asked_core_hours
FROM public.jobs j
CROSS JOIN LATERAL (
    SELECT count(DISTINCT r.network_address)::integer AS nodes, count(*)::integer AS resources,
           (count(DISTINCT r.core) + count(*) FILTER (WHERE r.core IS NULL))::integer AS cores
    FROM public.assigned_resources a JOIN public.resources r USING (resource_id)
    WHERE a.job_id = j.job_id AND r.type = 'default'
) held;
COMMENT ON VIEW oar_report.jobs IS 'every job, finished or not, with its wait, its run and what it holds or held';
COMMENT ON COLUMN oar_report.jobs.job_id IS 'the job''s number';
COMMENT ON COLUMN oar_report.jobs.array_id IS 'number of the first job of its array; its own number for a single job';
COMMENT ON COLUMN oar_report.jobs.array_index IS 'place in the array, from 1';
COMMENT ON COLUMN oar_report.jobs.job_name IS 'name given by the user, empty if none';
COMMENT ON COLUMN oar_report.jobs.user_name IS 'who submitted it';
COMMENT ON COLUMN oar_report.jobs.project IS 'project that it counts for';
COMMENT ON COLUMN oar_report.jobs.queue_name IS 'queue that it is in';
COMMENT ON COLUMN oar_report.jobs.kind IS 'PASSIVE (a script) or INTERACTIVE';
COMMENT ON COLUMN oar_report.jobs.types IS 'the words of oarsub -t';
COMMENT ON COLUMN oar_report.jobs.state IS 'present state';
COMMENT ON COLUMN oar_report.jobs.message IS 'last remark of the system on it';
COMMENT ON COLUMN oar_report.jobs.exit_status IS 'wait status of its command';
COMMENT ON COLUMN oar_report.jobs.attempt IS 'how often it was launched';
COMMENT ON COLUMN oar_report.jobs.resubmit_of IS 'the job that it repeats';
COMMENT ON COLUMN oar_report.jobs.reservation_start IS 'start asked for by an advance reservation';
COMMENT ON COLUMN oar_report.jobs.submitted_at IS 'when it was submitted';
COMMENT ON COLUMN oar_report.jobs.started_at IS 'when its command started';
COMMENT ON COLUMN oar_report.jobs.ended_at IS 'when it reached Terminated or Error';
COMMENT ON COLUMN oar_report.jobs.wait_seconds IS 'from submission to start; to its end if it never started; to now if it waits';
COMMENT ON COLUMN oar_report.jobs.run_seconds IS 'from start to end, or to now; NULL if it never started';
COMMENT ON COLUMN oar_report.jobs.walltime_seconds IS 'walltime of the alternative that was chosen, NULL before';
COMMENT ON COLUMN oar_report.jobs.nodes IS 'nodes that it holds or held';
COMMENT ON COLUMN oar_report.jobs.resources IS 'resources of type default that it holds or held';
COMMENT ON COLUMN oar_report.jobs.cores IS 'distinct cores among them; a resource without a core counts as one';
COMMENT ON COLUMN oar_report.jobs.core_hours IS 'cores times hours of run';
COMMENT ON COLUMN oar_report.jobs.asked_core_hours IS 'cores times hours of walltime';

CREATE VIEW oar_report.job_types AS
SELECT j.job_id, j.user_name, j.state, split_part(word, '=', 1) AS type,
       CASE WHEN strpos(word, '=') > 0 THEN substr(word, strpos(word, '=') + 1) END AS value
FROM public.jobs j CROSS JOIN LATERAL unnest(j.types) word;
COMMENT ON VIEW oar_report.job_types IS 'one row for each word of oarsub -t';
COMMENT ON COLUMN oar_report.job_types.job_id IS 'the job';
COMMENT ON COLUMN oar_report.job_types.user_name IS 'its user';
COMMENT ON COLUMN oar_report.job_types.state IS 'its present state';
COMMENT ON COLUMN oar_report.job_types.type IS 'the word before the equals sign: besteffort, container, ...';
COMMENT ON COLUMN oar_report.job_types.value IS 'what follows the equals sign, NULL without one';

CREATE VIEW oar_report.moldable_alternatives AS
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
COMMENT ON VIEW oar_report.moldable_alternatives IS 'what each job asked for: one row for each -l option';
COMMENT ON COLUMN oar_report.moldable_alternatives.job_id IS 'the job';
COMMENT ON COLUMN oar_report.moldable_alternatives.moldable_id IS 'number of the alternative, shared by the jobs of an array';
COMMENT ON COLUMN oar_report.moldable_alternatives.alternative IS 'its place among the job''s alternatives, from 0';
COMMENT ON COLUMN oar_report.moldable_alternatives.walltime_seconds IS 'its walltime';
COMMENT ON COLUMN oar_report.moldable_alternatives.request IS 'the request in the grammar of oarsub -l';
COMMENT ON COLUMN oar_report.moldable_alternatives.chosen IS 'whether the scheduler chose it';

CREATE VIEW oar_report.job_state_history AS
SELECT l.job_id, l.state, l.previous_state, t.event, t.who, lower(l.during) AS entered_at,
       upper(l.during) AS left_at,
       CASE WHEN s.final THEN NULL
            ELSE extract(epoch FROM coalesce(upper(l.during), now()) - lower(l.during))::double precision END AS seconds
FROM public.job_state_logs l JOIN public.job_states s USING (state)
LEFT JOIN public.job_transitions t ON (t.from_state, t.to_state) = (l.previous_state, l.state);
COMMENT ON VIEW oar_report.job_state_history IS 'every state of every job, with how long it stayed there';
COMMENT ON COLUMN oar_report.job_state_history.job_id IS 'the job';
COMMENT ON COLUMN oar_report.job_state_history.state IS 'the state';
COMMENT ON COLUMN oar_report.job_state_history.previous_state IS 'where it came from, NULL at submission';
COMMENT ON COLUMN oar_report.job_state_history.event IS 'what such a move means';
COMMENT ON COLUMN oar_report.job_state_history.who IS 'the module or command that makes such a move';
COMMENT ON COLUMN oar_report.job_state_history.entered_at IS 'when it entered the state';
COMMENT ON COLUMN oar_report.job_state_history.left_at IS 'when it left it, NULL if it is there';
COMMENT ON COLUMN oar_report.job_state_history.seconds IS 'time spent there, to now if it is there; NULL for final states';

CREATE VIEW oar_report.assigned_resources AS
SELECT a.job_id, j.user_name, j.project, j.queue_name, a.resource_id, r.type AS resource_type, r.network_address,
       lower(a.during) AS assigned_at, upper(a.during) AS released_at,
       extract(epoch FROM coalesce(upper(a.during), now()) - lower(a.during))::double precision AS seconds, a.exclusive
FROM public.assigned_resources a JOIN public.jobs j USING (job_id) JOIN public.resources r USING (resource_id);
COMMENT ON VIEW oar_report.assigned_resources IS 'which job held which resource, and when';
COMMENT ON COLUMN oar_report.assigned_resources.job_id IS 'the job';
COMMENT ON COLUMN oar_report.assigned_resources.user_name IS 'its user';
COMMENT ON COLUMN oar_report.assigned_resources.project IS 'its project';
COMMENT ON COLUMN oar_report.assigned_resources.queue_name IS 'its queue';
COMMENT ON COLUMN oar_report.assigned_resources.resource_id IS 'the resource';
COMMENT ON COLUMN oar_report.assigned_resources.resource_type IS 'its type: default for what computes';
COMMENT ON COLUMN oar_report.assigned_resources.network_address IS 'its node';
COMMENT ON COLUMN oar_report.assigned_resources.assigned_at IS 'when the job got it';
COMMENT ON COLUMN oar_report.assigned_resources.released_at IS 'when it gave it back, NULL if it holds it';
COMMENT ON COLUMN oar_report.assigned_resources.seconds IS 'how long it held it, to now if it does';
COMMENT ON COLUMN oar_report.assigned_resources.exclusive IS 'whether no other job could hold it meanwhile';

CREATE VIEW oar_report.node_state_history AS
SELECT r.network_address, l.resource_id, l.state, l.state_by, lower(l.during) AS entered_at,
       upper(l.during) AS left_at,
       extract(epoch FROM coalesce(upper(l.during), now()) - lower(l.during))::double precision AS seconds
FROM public.resource_state_logs l JOIN public.resources r USING (resource_id);
COMMENT ON VIEW oar_report.node_state_history IS 'every state of every resource and its node, with how long it lasted';
COMMENT ON COLUMN oar_report.node_state_history.network_address IS 'the node, NULL for a resource without one';
COMMENT ON COLUMN oar_report.node_state_history.resource_id IS 'the resource';
COMMENT ON COLUMN oar_report.node_state_history.state IS 'Alive, Absent, Suspected or Dead';
COMMENT ON COLUMN oar_report.node_state_history.state_by IS 'who put it there: admin or monitor';
COMMENT ON COLUMN oar_report.node_state_history.entered_at IS 'when it entered the state';
COMMENT ON COLUMN oar_report.node_state_history.left_at IS 'when it left it, NULL if it is there';
COMMENT ON COLUMN oar_report.node_state_history.seconds IS 'how long it was there, to now if it is';

CREATE VIEW oar_report.accounting AS
SELECT date_trunc('day', window_start, 'UTC') AS day, user_name, project, queue_name,
       coalesce(sum(consumption) FILTER (WHERE consumption_type = 'ASKED'), 0)::double precision AS asked_seconds,
       coalesce(sum(consumption) FILTER (WHERE consumption_type = 'USED'), 0)::double precision AS used_seconds,
       (coalesce(sum(consumption) FILTER (WHERE consumption_type = 'USED'), 0) / 3600.0)::double precision AS used_hours
FROM public.accounting GROUP BY 1, 2, 3, 4;
COMMENT ON VIEW oar_report.accounting IS 'consumption by day (UTC), user, project and queue';
COMMENT ON COLUMN oar_report.accounting.day IS 'first instant of the day in which the accounting window begins';
COMMENT ON COLUMN oar_report.accounting.user_name IS 'the user';
COMMENT ON COLUMN oar_report.accounting.project IS 'the project';
COMMENT ON COLUMN oar_report.accounting.queue_name IS 'the queue';
COMMENT ON COLUMN oar_report.accounting.asked_seconds IS 'resource-seconds asked for: resources times walltime';
COMMENT ON COLUMN oar_report.accounting.used_seconds IS 'resource-seconds used: resources times run';
COMMENT ON COLUMN oar_report.accounting.used_hours IS 'the same in resource-hours';

CREATE VIEW oar_report.karma AS
WITH recent AS (
    SELECT user_name, project, consumption_type, consumption FROM public.accounting
    WHERE window_stop > now() - interval '30 days' AND window_start < now()
), sums AS (
    SELECT CASE WHEN grouping(user_name) = 0 THEN 'user' ELSE 'project' END AS kind,
           coalesce(user_name, project) AS name,
           coalesce(sum(consumption) FILTER (WHERE consumption_type = 'ASKED'), 0) AS asked,
           coalesce(sum(consumption) FILTER (WHERE consumption_type = 'USED'), 0) AS used
    FROM recent GROUP BY GROUPING SETS ((user_name), (project))
)
SELECT kind, name, asked::double precision AS asked_seconds, used::double precision AS used_seconds,
       coalesce(asked / nullif(sum(asked) OVER (PARTITION BY kind), 0), 0)::double precision AS asked_share,
       coalesce(used / nullif(sum(used) OVER (PARTITION BY kind), 0), 0)::double precision AS used_share
FROM sums;
COMMENT ON VIEW oar_report.karma IS 'inputs of fair share: who asked for and used what part of the last 30 days';
COMMENT ON COLUMN oar_report.karma.kind IS 'user or project: what the row sums up';
COMMENT ON COLUMN oar_report.karma.name IS 'the user''s or the project''s name';
COMMENT ON COLUMN oar_report.karma.asked_seconds IS 'resource-seconds asked for';
COMMENT ON COLUMN oar_report.karma.used_seconds IS 'resource-seconds used';
COMMENT ON COLUMN oar_report.karma.asked_share IS 'part of all that was asked for, 0 to 1';
COMMENT ON COLUMN oar_report.karma.used_share IS 'part of all that was used, 0 to 1';

CREATE VIEW oar_report.waiting_jobs AS
SELECT j.job_id, j.user_name, j.project, j.queue_name, q.priority AS queue_priority, j.state, j.submitted_at,
       extract(epoch FROM now() - j.submitted_at)::double precision AS waiting_seconds,
       CASE WHEN j.state = 'Hold' THEN coalesce(g.verdict, 'held') ELSE g.verdict END AS verdict,
       coalesce(g.reason, '') AS reason, g.start_time AS predicted_start, g.end_time AS predicted_end
FROM public.jobs j JOIN public.queues q USING (queue_name) LEFT JOIN public.gantt_predictions g USING (job_id)
WHERE j.state IN ('Hold', 'Waiting', 'toAckReservation') AND j.state NOT IN ('Terminated', 'Error');
COMMENT ON VIEW oar_report.waiting_jobs IS 'jobs that have not started, with why and until when';
COMMENT ON COLUMN oar_report.waiting_jobs.job_id IS 'the job';
COMMENT ON COLUMN oar_report.waiting_jobs.user_name IS 'its user';
COMMENT ON COLUMN oar_report.waiting_jobs.project IS 'its project';
COMMENT ON COLUMN oar_report.waiting_jobs.queue_name IS 'its queue';
COMMENT ON COLUMN oar_report.waiting_jobs.queue_priority IS 'priority of the queue; higher ones are planned first';
COMMENT ON COLUMN oar_report.waiting_jobs.state IS 'Hold, Waiting or toAckReservation';
COMMENT ON COLUMN oar_report.waiting_jobs.submitted_at IS 'when it was submitted';
COMMENT ON COLUMN oar_report.waiting_jobs.waiting_seconds IS 'how long it has waited';
COMMENT ON COLUMN oar_report.waiting_jobs.verdict IS 'what the last scheduling pass found, NULL before the first';
COMMENT ON COLUMN oar_report.waiting_jobs.reason IS 'the same in words';
COMMENT ON COLUMN oar_report.waiting_jobs.predicted_start IS 'predicted start, NULL without a prediction';
COMMENT ON COLUMN oar_report.waiting_jobs.predicted_end IS 'predicted start plus walltime';

CREATE VIEW oar_report.predictions AS
SELECT g.job_id, j.user_name, j.queue_name, m.position AS alternative, r.resource_id, r.network_address,
       g.start_time AS predicted_start, g.end_time AS predicted_end
FROM public.gantt_predictions g JOIN public.jobs j USING (job_id)
JOIN public.moldable_descriptions m ON m.moldable_id = g.moldable_id
CROSS JOIN LATERAL unnest(g.resources) part
JOIN public.resources r ON r.resource_id >= lower(part) AND r.resource_id < upper(part);
COMMENT ON VIEW oar_report.predictions IS 'the Gantt of jobs to come: one row for each job and resource';
COMMENT ON COLUMN oar_report.predictions.job_id IS 'the job';
COMMENT ON COLUMN oar_report.predictions.user_name IS 'its user';
COMMENT ON COLUMN oar_report.predictions.queue_name IS 'its queue';
COMMENT ON COLUMN oar_report.predictions.alternative IS 'place of the predicted alternative, from 0';
COMMENT ON COLUMN oar_report.predictions.resource_id IS 'a resource that it is predicted on';
COMMENT ON COLUMN oar_report.predictions.network_address IS 'the node of the resource';
COMMENT ON COLUMN oar_report.predictions.predicted_start IS 'predicted start';
COMMENT ON COLUMN oar_report.predictions.predicted_end IS 'predicted start plus walltime';
