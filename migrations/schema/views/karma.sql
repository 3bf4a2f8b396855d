CREATE OR REPLACE VIEW oar_report.karma AS
WITH sums AS (
    SELECT CASE WHEN grouping(user_name) = 0 THEN 'user' ELSE 'project' END AS kind,
           coalesce(user_name, project) AS name, sum(asked_seconds) AS asked_seconds, sum(used_seconds) AS used_seconds
    FROM oar_report.charges GROUP BY GROUPING SETS ((user_name), (project))
), shares AS (
    SELECT *, coalesce(asked_seconds / nullif(sum(asked_seconds) OVER (PARTITION BY kind), 0), 0) AS asked_share,
           coalesce(used_seconds / nullif(sum(used_seconds) OVER (PARTITION BY kind), 0), 0) AS used_share
    FROM sums
), aimed AS (
    SELECT s.*, p.karma_project, p.karma_user, p.karma_asked,
           CASE kind WHEN 'user' THEN coalesce((p.user_targets ->> name)::double precision, p.other_users_target)
                     ELSE coalesce((p.project_targets ->> name)::double precision, p.other_projects_target) END AS target
    FROM shares s CROSS JOIN public.scheduling_passes p
)
SELECT kind, name, asked_seconds, used_seconds, asked_share, used_share, target,
       CASE kind WHEN 'user' THEN karma_user * (used_share - target) + karma_asked * (asked_share - target)
                 ELSE karma_project * (used_share - target) END AS karma
FROM aimed;
COMMENT ON VIEW oar_report.karma IS 'fair share as the scheduler computes it: the karma of a job is that of its user and that of its project';
COMMENT ON COLUMN oar_report.karma.kind IS 'user or project: what the row sums up';
COMMENT ON COLUMN oar_report.karma.name IS 'the user''s or the project''s name';
COMMENT ON COLUMN oar_report.karma.asked_seconds IS 'resource-seconds asked for';
COMMENT ON COLUMN oar_report.karma.used_seconds IS 'resource-seconds used';
COMMENT ON COLUMN oar_report.karma.asked_share IS 'part of all that was asked for, 0 to 1';
COMMENT ON COLUMN oar_report.karma.used_share IS 'part of all that was used, 0 to 1';
COMMENT ON COLUMN oar_report.karma.target IS 'part that it should have, 0 to 1';
COMMENT ON COLUMN oar_report.karma.karma IS 'what it adds to the karma of its jobs: coefficients times what is beyond the target';
