-- What suspended jobs gave back is not theirs any more: two jobs cannot hold one resource.
DROP TRIGGER resources_returned ON assigned_resources;
DROP FUNCTION resources_returned;
DROP FUNCTION expected_end;
DROP TRIGGER job_paused ON jobs;
DROP FUNCTION job_paused;
DROP TABLE suspend_requests;
DELETE FROM assigned_resources WHERE suspended;
DROP INDEX assigned_resources_suspended;
ALTER TABLE assigned_resources
    DROP CONSTRAINT one_exclusive_holder,
    ADD CONSTRAINT one_exclusive_holder EXCLUDE USING gist (resource_id WITH =, during WITH &&) WHERE (exclusive);
ALTER TABLE assigned_resources DROP COLUMN suspended;
ALTER TABLE jobs DROP CONSTRAINT suspended_since, DROP COLUMN suspended_time, DROP COLUMN suspended_at;
