-- What concerns modules of the broker is announced as the event that the trigger names.
CREATE OR REPLACE FUNCTION grid_noticed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM announce(ARRAY[TG_ARGV[0]]);
    RETURN NULL;
END $$;
COMMENT ON FUNCTION grid_noticed IS 'tell the modules of the broker what happened';

CREATE OR REPLACE TRIGGER grid_job_submitted AFTER INSERT ON grid_jobs FOR EACH ROW
    EXECUTE FUNCTION grid_noticed('grid job submitted');
CREATE OR REPLACE TRIGGER grid_job_again AFTER UPDATE ON grid_jobs FOR EACH ROW
    WHEN (OLD.state <> NEW.state AND NEW.state = 'Submitted') EXECUTE FUNCTION grid_noticed('grid job submitted');
CREATE OR REPLACE TRIGGER grid_job_changed AFTER UPDATE ON grid_jobs FOR EACH ROW
    WHEN (OLD.state <> NEW.state) EXECUTE FUNCTION grid_noticed('grid job changed');
CREATE OR REPLACE TRIGGER grid_delete_asked AFTER UPDATE ON grid_jobs FOR EACH ROW
    WHEN (OLD.delete_asked IS DISTINCT FROM NEW.delete_asked) EXECUTE FUNCTION grid_noticed('grid delete asked');
CREATE OR REPLACE TRIGGER grid_part_changed AFTER UPDATE ON grid_parts FOR EACH ROW
    WHEN (OLD.state <> NEW.state AND NEW.state IN ('Running', 'Ended'))
    EXECUTE FUNCTION grid_noticed('grid part changed');
CREATE OR REPLACE TRIGGER grid_part_placed AFTER UPDATE ON grid_parts FOR EACH ROW
    WHEN (OLD.state <> NEW.state AND NEW.state = 'Committing') EXECUTE FUNCTION grid_noticed('grid part placed');
CREATE OR REPLACE TRIGGER grid_part_to_end AFTER UPDATE ON grid_parts FOR EACH ROW
    WHEN (OLD.end_asked IS NULL AND NEW.end_asked IS NOT NULL) EXECUTE FUNCTION grid_noticed('grid part to end');
CREATE OR REPLACE TRIGGER grid_cluster_added AFTER INSERT ON grid_clusters FOR EACH ROW
    EXECUTE FUNCTION grid_noticed('grid clusters changed');
CREATE OR REPLACE TRIGGER grid_cluster_changed AFTER UPDATE ON grid_clusters FOR EACH ROW
    WHEN ((OLD.kind, OLD.door, OLD.speed, OLD.dedicated, OLD.place, OLD.active)
          IS DISTINCT FROM (NEW.kind, NEW.door, NEW.speed, NEW.dedicated, NEW.place, NEW.active))
    EXECUTE FUNCTION grid_noticed('grid clusters changed');
CREATE OR REPLACE TRIGGER grid_cluster_heard AFTER UPDATE ON grid_clusters FOR EACH ROW
    WHEN (OLD.silent_since IS NOT NULL AND NEW.silent_since IS NULL)
    EXECUTE FUNCTION grid_noticed('grid cluster heard');
CREATE OR REPLACE TRIGGER grid_pass_asked AFTER INSERT ON grid_passes FOR EACH ROW
    WHEN (NEW.began_at IS NULL) EXECUTE FUNCTION grid_noticed('grid pass asked');
CREATE OR REPLACE TRIGGER grid_metajob_idle AFTER UPDATE ON grid_metajobs FOR EACH ROW
    WHEN (OLD.idle_on = '' AND NEW.idle_on <> '') EXECUTE FUNCTION grid_noticed('grid processors idle');
