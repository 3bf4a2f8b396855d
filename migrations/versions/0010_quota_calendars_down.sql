DELETE FROM quotas WHERE set_name IS NOT NULL;
ALTER TABLE quotas DROP CONSTRAINT one_rule_a_key, DROP COLUMN set_name,
    ADD CONSTRAINT quotas_queue_name_project_job_type_user_name_key UNIQUE (queue_name, project, job_type, user_name);
DROP TABLE quota_exceptions, quota_periods, quota_sets;
