-- The moves of grid jobs, parts and transactions are those of grid_transitions, whoever makes them.
CREATE OR REPLACE FUNCTION wrong_grid_move() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        RAISE EXCEPTION 'a grid % begins as %, not as %', TG_ARGV[0], TG_ARGV[1], NEW.state
            USING ERRCODE = 'check_violation', HINT = 'grid_transitions lists the allowed moves';
    ELSIF NOT EXISTS (SELECT FROM grid_transitions
                      WHERE subject = TG_ARGV[0] AND from_state = OLD.state AND to_state = NEW.state) THEN
        RAISE EXCEPTION 'grid % % cannot go from % to %', TG_ARGV[0],
            CASE WHEN TG_ARGV[0] = 'part' THEN to_jsonb(OLD)->>'name' ELSE to_jsonb(OLD)->>'id' END, OLD.state, NEW.state
            USING ERRCODE = 'check_violation', HINT = 'grid_transitions lists the allowed moves';
    END IF;
    RETURN NEW;
END $$;
COMMENT ON FUNCTION wrong_grid_move IS 'refuse moves of grid jobs, parts and transactions that are not allowed';

CREATE OR REPLACE TRIGGER grid_job_begun BEFORE INSERT ON grid_jobs FOR EACH ROW
    WHEN (NEW.state <> 'Submitted') EXECUTE FUNCTION wrong_grid_move('job', 'Submitted');
CREATE OR REPLACE TRIGGER grid_job_moved BEFORE UPDATE ON grid_jobs FOR EACH ROW
    WHEN (OLD.state <> NEW.state) EXECUTE FUNCTION wrong_grid_move('job');
CREATE OR REPLACE TRIGGER grid_part_begun BEFORE INSERT ON grid_parts FOR EACH ROW
    WHEN (NEW.state <> 'Preparing') EXECUTE FUNCTION wrong_grid_move('part', 'Preparing');
CREATE OR REPLACE TRIGGER grid_part_moved BEFORE UPDATE ON grid_parts FOR EACH ROW
    WHEN (OLD.state <> NEW.state) EXECUTE FUNCTION wrong_grid_move('part');
CREATE OR REPLACE TRIGGER grid_transaction_begun BEFORE INSERT ON grid_transactions FOR EACH ROW
    WHEN (NEW.state <> 'Preparing') EXECUTE FUNCTION wrong_grid_move('transaction', 'Preparing');
CREATE OR REPLACE TRIGGER grid_transaction_moved BEFORE UPDATE ON grid_transactions FOR EACH ROW
    WHEN (OLD.state <> NEW.state) EXECUTE FUNCTION wrong_grid_move('transaction');

CREATE OR REPLACE TRIGGER rows_stay BEFORE INSERT OR UPDATE OR DELETE OR TRUNCATE ON grid_transitions
    FOR EACH STATEMENT WHEN (current_setting('oarpy.migrating', true) IS DISTINCT FROM 'yes')
    EXECUTE FUNCTION rows_stay();
