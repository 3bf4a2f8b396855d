-- The moves of brokers' parts and transactions are those of door_moves, whoever makes them. A part begins Prepared; an
-- abort may come before its transaction. Parts that come back from the past are as they were.
CREATE OR REPLACE FUNCTION wrong_door_move() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF may_rewrite_history(TG_RELID) THEN
        RETURN NEW;
    ELSIF TG_OP = 'INSERT' THEN
        RAISE EXCEPTION 'a % of a broker cannot begin as %', TG_ARGV[0], NEW.state
            USING ERRCODE = 'check_violation', HINT = 'door_moves lists the allowed moves';
    ELSIF NOT EXISTS (SELECT FROM door_moves
                      WHERE subject = TG_ARGV[0] AND from_state = OLD.state AND to_state = NEW.state) THEN
        RAISE EXCEPTION 'a % of broker % cannot go from % to %', TG_ARGV[0], OLD.broker, OLD.state, NEW.state
            USING ERRCODE = 'check_violation', HINT = 'door_moves lists the allowed moves';
    END IF;
    RETURN NEW;
END $$;
COMMENT ON FUNCTION wrong_door_move IS 'refuse moves of brokers'' parts and transactions that are not allowed';

CREATE OR REPLACE TRIGGER part_moved BEFORE UPDATE ON door_parts FOR EACH ROW
    WHEN (OLD.state <> NEW.state) EXECUTE FUNCTION wrong_door_move('part');
CREATE OR REPLACE TRIGGER part_begun BEFORE INSERT ON door_parts FOR EACH ROW
    WHEN (NEW.state <> 'Prepared') EXECUTE FUNCTION wrong_door_move('part');
CREATE OR REPLACE TRIGGER transaction_moved BEFORE UPDATE ON door_transactions FOR EACH ROW
    WHEN (OLD.state <> NEW.state) EXECUTE FUNCTION wrong_door_move('transaction');
CREATE OR REPLACE TRIGGER transaction_begun BEFORE INSERT ON door_transactions FOR EACH ROW
    WHEN (NEW.state = 'Committed') EXECUTE FUNCTION wrong_door_move('transaction');

-- Who lapses when is the canceller's; gates are the launcher's, and what is planned behind them.
CREATE OR REPLACE TRIGGER announced_new AFTER INSERT ON door_parts
    REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION announced('part changed');
CREATE OR REPLACE TRIGGER announced AFTER UPDATE ON door_parts
    REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION announced('part changed');
CREATE OR REPLACE TRIGGER announced_new AFTER INSERT ON launch_gates
    REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION announced('gate changed');
CREATE OR REPLACE TRIGGER announced AFTER UPDATE ON launch_gates
    REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION announced('gate changed');
CREATE OR REPLACE TRIGGER announced_gone AFTER DELETE ON launch_gates
    REFERENCING OLD TABLE AS changed FOR EACH STATEMENT WHEN (pg_trigger_depth() = 0)
    EXECUTE FUNCTION announced('gate changed');
CREATE OR REPLACE TRIGGER announced_empty AFTER TRUNCATE ON launch_gates
    FOR EACH STATEMENT EXECUTE FUNCTION announced_empty('gate changed');

CREATE OR REPLACE TRIGGER rows_stay BEFORE INSERT OR UPDATE OR DELETE OR TRUNCATE ON door_moves
    FOR EACH STATEMENT WHEN (current_setting('oarpy.migrating', true) IS DISTINCT FROM 'yes')
    EXECUTE FUNCTION rows_stay();
