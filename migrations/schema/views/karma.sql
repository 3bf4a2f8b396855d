CREATE OR REPLACE VIEW oar_report.karma AS
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
