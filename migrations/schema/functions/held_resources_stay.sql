-- A job runs where its resources are, and is counted for what they are.
CREATE OR REPLACE FUNCTION held_resources_stay() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE job bigint;
BEGIN
    SELECT job_id INTO job FROM assigned_resources
        WHERE resource_id = OLD.resource_id AND (upper_inf(during) OR suspended) ORDER BY job_id LIMIT 1;
    IF job IS NOT NULL THEN
        RAISE EXCEPTION 'resource % cannot become another one: job % has it', OLD.resource_id, job
            USING ERRCODE = 'check_violation',
                HINT = 'oarnodesetting --drain on keeps new jobs off its node; change it when the job is over';
    END IF;
    IF NEW.type <> OLD.type AND EXISTS (SELECT FROM assigned_resources WHERE resource_id = OLD.resource_id) THEN
        RAISE EXCEPTION 'resource % stays of type %: jobs had it', OLD.resource_id, OLD.type
            USING ERRCODE = 'check_violation', HINT = 'set it Dead, and add one of the other type';
    END IF;
    RETURN NEW;
END $$;
COMMENT ON FUNCTION held_resources_stay IS 'no resource changes its node, type or number while a job has it';

CREATE OR REPLACE TRIGGER held_resources_stay BEFORE UPDATE OF resource_id, network_address, type ON resources
    FOR EACH ROW WHEN ((NEW.resource_id, NEW.network_address, NEW.type)
                       IS DISTINCT FROM (OLD.resource_id, OLD.network_address, OLD.type))
    EXECUTE FUNCTION held_resources_stay();
