-- What was emptied whole has no rows to be looked at.
CREATE OR REPLACE FUNCTION announced_empty() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM announce(ARRAY[TG_ARGV[0]]);
    RETURN NULL;
END $$;
COMMENT ON FUNCTION announced_empty IS 'announce that a table was emptied, as the event that the trigger names';

CREATE OR REPLACE TRIGGER announced_empty AFTER TRUNCATE ON queues
    FOR EACH STATEMENT EXECUTE FUNCTION announced_empty('queues changed');
CREATE OR REPLACE TRIGGER announced_empty AFTER TRUNCATE ON quotas
    FOR EACH STATEMENT EXECUTE FUNCTION announced_empty('quotas changed');
CREATE OR REPLACE TRIGGER announced_empty AFTER TRUNCATE ON quota_sets
    FOR EACH STATEMENT EXECUTE FUNCTION announced_empty('quotas changed');
CREATE OR REPLACE TRIGGER announced_empty AFTER TRUNCATE ON quota_periods
    FOR EACH STATEMENT EXECUTE FUNCTION announced_empty('quotas changed');
CREATE OR REPLACE TRIGGER announced_empty AFTER TRUNCATE ON quota_exceptions
    FOR EACH STATEMENT EXECUTE FUNCTION announced_empty('quotas changed');
CREATE OR REPLACE TRIGGER announced_empty AFTER TRUNCATE ON job_dependencies
    FOR EACH STATEMENT EXECUTE FUNCTION announced_empty('job changed');
CREATE OR REPLACE TRIGGER announced_empty AFTER TRUNCATE ON reserved_resources
    FOR EACH STATEMENT EXECUTE FUNCTION announced_empty('job changed');
CREATE OR REPLACE TRIGGER announced_empty AFTER TRUNCATE ON node_power
    FOR EACH STATEMENT EXECUTE FUNCTION announced_empty('power changed');
CREATE OR REPLACE TRIGGER announced_empty AFTER TRUNCATE ON kill_requests
    FOR EACH STATEMENT EXECUTE FUNCTION announced_empty('job changed');
