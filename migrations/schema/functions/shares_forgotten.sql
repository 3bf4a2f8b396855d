-- Only a consumable's row tells where jobs had amounts of it, and that they shared GPUs by it: without it, these cannot be
-- counted again.
CREATE OR REPLACE FUNCTION shares_forgotten() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE site SET gpu_hours_since = greatest(gpu_hours_since, since.at) FROM (
        SELECT least(greatest(now(), max(j.until)), TIMESTAMPTZ '2999-01-01 00:00:00+00') AS at
        FROM forgotten f
            JOIN (SELECT moldable_id, consumable FROM consumption_descriptions
                  UNION ALL
                  SELECT moldable_id, consumable FROM oar_past.consumption_descriptions) d ON d.consumable = f.name
            JOIN (SELECT moldable_id, started_at + walltime AS until FROM jobs
                  WHERE accounted AND started_at IS NOT NULL
                  UNION ALL
                  SELECT moldable_id, started_at + walltime FROM oar_past.jobs
                  WHERE accounted AND started_at IS NOT NULL) j USING (moldable_id)
        HAVING count(*) > 0
    ) AS since;
    RETURN NULL;
END $$;
COMMENT ON FUNCTION shares_forgotten IS 'compare no sums of GPUs and consumables from before a consumable was removed';

CREATE OR REPLACE TRIGGER shares_forgotten AFTER DELETE ON consumables
    REFERENCING OLD TABLE AS forgotten FOR EACH STATEMENT EXECUTE FUNCTION shares_forgotten();
