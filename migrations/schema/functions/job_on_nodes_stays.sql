-- A node knows a job by its number and attempt, and the server finds its nodes by its types. While a node may have
-- something of it, nobody else than who launches it changes these.
CREATE OR REPLACE FUNCTION job_on_nodes_stays() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'job % is % under attempt %, which its nodes know it by', OLD.job_id, OLD.state, OLD.attempt
        USING ERRCODE = 'check_violation',
              HINT = 'neither its attempt nor a type that says where it runs can change before it is over';
END $$;
COMMENT ON FUNCTION job_on_nodes_stays IS 'keep what nodes and server know a job by';

CREATE OR REPLACE TRIGGER job_on_nodes_stays BEFORE UPDATE OF attempt, incarnation, types ON jobs FOR EACH ROW
    WHEN (OLD.state IN ('Launching', 'Running', 'Suspended', 'Resuming', 'Finishing')
          AND (OLD.attempt <> NEW.attempt OR OLD.incarnation <> NEW.incarnation
               OR (OLD.types && '{noop,noop=standby}') <> (NEW.types && '{noop,noop=standby}')
               OR (OLD.types && '{deploy,deploy=standby}') <> (NEW.types && '{deploy,deploy=standby}')
               OR (OLD.types && '{cosystem,cosystem=standby}') <> (NEW.types && '{cosystem,cosystem=standby}')))
    EXECUTE FUNCTION job_on_nodes_stays();
