-- What becomes of bags over clusters concerns their broker, and who waits for a promise.
CREATE OR REPLACE FUNCTION grid_bag_noticed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM announce(ARRAY[CASE TG_OP WHEN 'INSERT' THEN 'grid bag asked' ELSE 'grid bag changed' END]);
    RETURN NULL;
END $$;
COMMENT ON FUNCTION grid_bag_noticed IS 'tell the broker that there is a bag, or that something of it has changed';

CREATE OR REPLACE TRIGGER grid_bag_asked AFTER INSERT ON grid_bags FOR EACH ROW EXECUTE FUNCTION grid_bag_noticed();
CREATE OR REPLACE TRIGGER grid_bag_moved AFTER UPDATE ON grid_bag_parts FOR EACH ROW
    WHEN (OLD.completion IS DISTINCT FROM NEW.completion) EXECUTE FUNCTION grid_bag_noticed();
CREATE OR REPLACE TRIGGER grid_bag_promised AFTER UPDATE ON grid_bags FOR EACH ROW
    WHEN (OLD.promise IS DISTINCT FROM NEW.promise) EXECUTE FUNCTION grid_bag_noticed();
CREATE OR REPLACE TRIGGER grid_task_over AFTER UPDATE ON grid_bag_tasks FOR EACH ROW
    WHEN (OLD.state = 'Live' AND NEW.state IN ('Over', 'Failed')) EXECUTE FUNCTION grid_bag_noticed();
