-- What is divided among jobs instead of counted: memory of hosts, bandwidth of switches. Jobs ask for amounts of it
-- beside resources, and hold them for as long as they are not over.

CREATE TABLE consumables (
    name text PRIMARY KEY CHECK (name ~ '^[a-z_][a-z0-9_]{0,62}$' AND name NOT IN ('nodes', 'walltime')),
    level text NOT NULL REFERENCES resource_properties ON UPDATE CASCADE,
    unit text NOT NULL DEFAULT 'count' CHECK (unit IN ('bytes', 'count'))
);
COMMENT ON TABLE consumables IS 'what is divided among jobs instead of counted: memory of hosts and the like';
COMMENT ON COLUMN consumables.name IS 'its name in requests';
COMMENT ON COLUMN consumables.level IS 'the property whose values have amounts of it; what shares a value is a block';
COMMENT ON COLUMN consumables.unit IS 'bytes or count: what amounts are';

-- The sum of what is held is kept here, because a check on one row holds whoever writes at the same time, at every
-- isolation level: two sessions that take from one block wait for its row.
CREATE TABLE consumable_capacities (
    consumable text NOT NULL REFERENCES consumables ON DELETE CASCADE,
    block text NOT NULL CHECK (block <> ''),
    capacity bigint NOT NULL CHECK (capacity BETWEEN 1 AND 9007199254740992),
    held bigint NOT NULL DEFAULT 0 CHECK (held >= 0),
    PRIMARY KEY (consumable, block),
    CONSTRAINT enough_left CHECK (held <= capacity)
);
COMMENT ON TABLE consumable_capacities IS 'how much of a consumable each block has, and how much of that is held';
COMMENT ON COLUMN consumable_capacities.consumable IS 'the consumable';
COMMENT ON COLUMN consumable_capacities.block IS 'value of the consumable''s level, as text';
COMMENT ON COLUMN consumable_capacities.capacity IS 'how much there is; a block without a row has none';
COMMENT ON COLUMN consumable_capacities.held IS 'how much of it jobs hold now; kept by triggers';

CREATE TABLE consumption_descriptions (
    moldable_id bigint NOT NULL REFERENCES moldable_descriptions ON DELETE CASCADE,
    consumable text NOT NULL CHECK (consumable ~ '^[A-Za-z_][A-Za-z0-9_]{0,62}$'),
    position smallint NOT NULL CHECK (position >= 0),
    amount bigint NOT NULL CHECK (amount BETWEEN 1 AND 9007199254740992),
    PRIMARY KEY (moldable_id, consumable)
);
COMMENT ON TABLE consumption_descriptions IS 'the amounts of consumables that an alternative asks for';
COMMENT ON COLUMN consumption_descriptions.moldable_id IS 'the alternative';
COMMENT ON COLUMN consumption_descriptions.consumable IS 'the consumable, which may be gone by now';
COMMENT ON COLUMN consumption_descriptions.position IS 'its place in the request, from 0';
COMMENT ON COLUMN consumption_descriptions.amount IS 'how much on each block that the job has resources of';

CREATE TABLE assigned_amounts (
    job_id bigint NOT NULL REFERENCES jobs ON DELETE CASCADE,
    consumable text NOT NULL,
    block text NOT NULL,
    amount bigint NOT NULL CHECK (amount > 0),
    during tstzrange NOT NULL,
    PRIMARY KEY (job_id, consumable, block)
);
CREATE INDEX assigned_amounts_held ON assigned_amounts (consumable, block) WHERE upper_inf(during);
COMMENT ON TABLE assigned_amounts IS
    'amounts of consumables that jobs hold or held; triggers write them when resources are assigned';
COMMENT ON COLUMN assigned_amounts.job_id IS 'the job';
COMMENT ON COLUMN assigned_amounts.consumable IS 'the consumable, which may be gone once the job is over';
COMMENT ON COLUMN assigned_amounts.block IS 'value of its level where the amount is';
COMMENT ON COLUMN assigned_amounts.amount IS 'how much';
COMMENT ON COLUMN assigned_amounts.during IS 'since when, and until when; open while the job is not over';

-- Taking and giving back ----------------------------------------------------------------------------------------------

CREATE FUNCTION hold_amounts(names text[], blocks text[], changes bigint[]) RETURNS void LANGUAGE plpgsql AS $$
DECLARE lacking record;
BEGIN
    -- always in one order, so that two sessions never wait for each other
    PERFORM FROM consumable_capacities c
        JOIN unnest(names, blocks) AS w(consumable, block) USING (consumable, block)
        ORDER BY c.consumable, c.block FOR NO KEY UPDATE OF c;
    SELECT w.consumable, w.block, w.change, coalesce(c.capacity - c.held, 0) AS remaining INTO lacking
        FROM unnest(names, blocks, changes) AS w(consumable, block, change)
            LEFT JOIN consumable_capacities c USING (consumable, block)
        WHERE w.change > 0 AND (c.capacity IS NULL OR c.held + w.change > c.capacity)
        ORDER BY w.consumable, w.block LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION '% more of % is wanted on %, % is left',
            lacking.change, lacking.consumable, lacking.block, lacking.remaining
            USING ERRCODE = 'check_violation', TABLE = 'consumable_capacities', CONSTRAINT = 'enough_left';
    END IF;
    UPDATE consumable_capacities c SET held = c.held + w.change
        FROM unnest(names, blocks, changes) AS w(consumable, block, change)
        WHERE (c.consumable, c.block) = (w.consumable, w.block);
END $$;
COMMENT ON FUNCTION hold_amounts IS 'add to what is held of blocks; refuses more than there is';

CREATE FUNCTION amounts_moved() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    names text[];
    blocks text[];
    changes bigint[];
BEGIN
    IF TG_OP = 'INSERT' THEN
        SELECT array_agg(consumable), array_agg(block), array_agg(change) INTO names, blocks, changes FROM (
            SELECT consumable, block, sum(amount)::bigint AS change FROM taken WHERE upper_inf(during)
            GROUP BY consumable, block) AS sums;
    ELSIF TG_OP = 'DELETE' THEN
        SELECT array_agg(consumable), array_agg(block), array_agg(change) INTO names, blocks, changes FROM (
            SELECT consumable, block, -sum(amount)::bigint AS change FROM gone WHERE upper_inf(during)
            GROUP BY consumable, block) AS sums;
    ELSE
        SELECT array_agg(consumable), array_agg(block), array_agg(change) INTO names, blocks, changes FROM (
            SELECT consumable, block, sum(amount)::bigint AS change FROM (
                SELECT consumable, block, amount FROM taken WHERE upper_inf(during)
                UNION ALL SELECT consumable, block, -amount FROM gone WHERE upper_inf(during)) AS both_ways
            GROUP BY consumable, block HAVING sum(amount) <> 0) AS sums;
    END IF;
    IF names IS NOT NULL THEN PERFORM hold_amounts(names, blocks, changes); END IF;
    RETURN NULL;
END $$;
COMMENT ON FUNCTION amounts_moved IS 'keep the sums of what is held';
CREATE TRIGGER amounts_taken AFTER INSERT ON assigned_amounts
    REFERENCING NEW TABLE AS taken FOR EACH STATEMENT EXECUTE FUNCTION amounts_moved();
CREATE TRIGGER amounts_changed AFTER UPDATE ON assigned_amounts
    REFERENCING OLD TABLE AS gone NEW TABLE AS taken FOR EACH STATEMENT EXECUTE FUNCTION amounts_moved();
CREATE TRIGGER amounts_given_back AFTER DELETE ON assigned_amounts
    REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION amounts_moved();

-- A job that gets resources takes, from each block of theirs, what its alternative asks for.
CREATE FUNCTION amounts_assigned() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT FROM consumables) THEN
        INSERT INTO assigned_amounts (job_id, consumable, block, amount, during)
            SELECT j.job_id, c.name, to_jsonb(r) ->> c.level, min(d.amount), tstzrange(min(lower(g.during)), NULL)
            FROM given g JOIN jobs j USING (job_id)
                JOIN consumption_descriptions d ON d.moldable_id = j.moldable_id
                JOIN consumables c ON c.name = d.consumable
                JOIN resources r ON r.resource_id = g.resource_id
            WHERE upper_inf(g.during) AND to_jsonb(r) ->> c.level IS NOT NULL
            GROUP BY 1, 2, 3
            ON CONFLICT DO NOTHING;
    END IF;
    RETURN NULL;
END $$;
COMMENT ON FUNCTION amounts_assigned IS 'give jobs the amounts that go with their resources';
CREATE TRIGGER amounts_assigned AFTER INSERT ON assigned_resources
    REFERENCING NEW TABLE AS given FOR EACH STATEMENT EXECUTE FUNCTION amounts_assigned();

-- A job that is over, or waits again, holds nothing; one that is suspended keeps its amounts.
CREATE FUNCTION amounts_released() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE moment timestamptz := clock_timestamp();
BEGIN
    IF EXISTS (SELECT FROM consumables) THEN
        UPDATE assigned_amounts a
            SET during = tstzrange(lower(a.during), greatest(moment, lower(a.during) + interval '1 microsecond'))
            FROM new_jobs n
            WHERE n.state IN ('Terminated', 'Error') AND a.job_id = n.job_id AND upper_inf(a.during);
        DELETE FROM assigned_amounts a USING new_jobs n
            WHERE n.state = 'Waiting' AND a.job_id = n.job_id AND upper_inf(a.during);
    END IF;
    RETURN NULL;
END $$;
COMMENT ON FUNCTION amounts_released IS 'take back the amounts of jobs that hold nothing any more';
CREATE TRIGGER jobs_released AFTER UPDATE ON jobs
    REFERENCING NEW TABLE AS new_jobs FOR EACH STATEMENT EXECUTE FUNCTION amounts_released();

-- What must not change under those who hold amounts -------------------------------------------------------------------

CREATE FUNCTION held_capacities_stay() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'jobs hold % of % on %', OLD.held, OLD.consumable, OLD.block
        USING ERRCODE = 'check_violation', HINT = 'wait for them, or delete them first';
END $$;
CREATE TRIGGER held_capacities_stay BEFORE DELETE ON consumable_capacities FOR EACH ROW
    WHEN (OLD.held > 0) EXECUTE FUNCTION held_capacities_stay();

CREATE FUNCTION held_blocks_stay() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE moved record;
BEGIN
    IF EXISTS (SELECT FROM consumables) THEN
        SELECT n.resource_id, c.level, c.name, a.job_id INTO moved
            FROM consumables c CROSS JOIN changed n JOIN before o USING (resource_id)
                JOIN assigned_resources a ON a.resource_id = n.resource_id AND upper_inf(a.during)
                JOIN assigned_amounts m ON m.job_id = a.job_id AND m.consumable = c.name AND upper_inf(m.during)
            WHERE to_jsonb(o) ->> c.level IS DISTINCT FROM to_jsonb(n) ->> c.level
            ORDER BY n.resource_id, a.job_id LIMIT 1;
        IF FOUND THEN
            RAISE EXCEPTION 'the % of resource % cannot change: job % holds % there',
                moved.level, moved.resource_id, moved.job_id, moved.name;
        END IF;
    END IF;
    RETURN NULL;
END $$;
COMMENT ON FUNCTION held_blocks_stay IS 'no resource leaves the block in which its job holds an amount';
CREATE TRIGGER held_blocks_stay AFTER UPDATE ON resources
    REFERENCING OLD TABLE AS before NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION held_blocks_stay();

-- What is held changes all the time and is no change of the platform.
CREATE FUNCTION capacities_changed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE site SET platform_version = platform_version + 1;
    PERFORM announce(ARRAY['platform changed']);
    RETURN NULL;
END $$;
COMMENT ON FUNCTION capacities_changed IS 'announce that there is more, or less, to be divided';
CREATE TRIGGER capacities_changed
    AFTER INSERT OR DELETE OR UPDATE OF consumable, block, capacity ON consumable_capacities
    FOR EACH STATEMENT EXECUTE FUNCTION capacities_changed();
CREATE TRIGGER consumables_changed AFTER INSERT OR UPDATE OR DELETE ON consumables
    FOR EACH STATEMENT EXECUTE FUNCTION capacities_changed();

-- For analysts --------------------------------------------------------------------------------------------------------

CREATE VIEW oar_report.consumables AS
SELECT c.name AS consumable, c.level, c.unit, k.block, k.capacity, k.held, k.capacity - k.held AS remaining
FROM public.consumables c JOIN public.consumable_capacities k ON k.consumable = c.name;
COMMENT ON VIEW oar_report.consumables IS 'what is divided among jobs, block by block, and how much of it is held now';
COMMENT ON COLUMN oar_report.consumables.consumable IS 'its name in requests';
COMMENT ON COLUMN oar_report.consumables.level IS 'the property whose values have amounts of it';
COMMENT ON COLUMN oar_report.consumables.unit IS 'bytes or count';
COMMENT ON COLUMN oar_report.consumables.block IS 'a value of that property';
COMMENT ON COLUMN oar_report.consumables.capacity IS 'how much there is';
COMMENT ON COLUMN oar_report.consumables.held IS 'how much of it jobs hold';
COMMENT ON COLUMN oar_report.consumables.remaining IS 'the rest';

CREATE VIEW oar_report.assigned_amounts AS
SELECT a.job_id, j.user_name, j.project, j.queue_name, a.consumable, c.level, c.unit, a.block, a.amount,
       lower(a.during) AS assigned_at, upper(a.during) AS released_at,
       extract(epoch FROM coalesce(upper(a.during), now()) - lower(a.during))::double precision AS seconds
FROM public.assigned_amounts a JOIN public.jobs j USING (job_id)
    LEFT JOIN public.consumables c ON c.name = a.consumable;
COMMENT ON VIEW oar_report.assigned_amounts IS 'which job held how much of which consumable, where and when';
COMMENT ON COLUMN oar_report.assigned_amounts.job_id IS 'the job';
COMMENT ON COLUMN oar_report.assigned_amounts.user_name IS 'its user';
COMMENT ON COLUMN oar_report.assigned_amounts.project IS 'its project';
COMMENT ON COLUMN oar_report.assigned_amounts.queue_name IS 'its queue';
COMMENT ON COLUMN oar_report.assigned_amounts.consumable IS 'the consumable';
COMMENT ON COLUMN oar_report.assigned_amounts.level IS 'the property whose values have it; NULL once it is gone';
COMMENT ON COLUMN oar_report.assigned_amounts.unit IS 'bytes or count; NULL once it is gone';
COMMENT ON COLUMN oar_report.assigned_amounts.block IS 'the value of that property where the amount is';
COMMENT ON COLUMN oar_report.assigned_amounts.amount IS 'how much';
COMMENT ON COLUMN oar_report.assigned_amounts.assigned_at IS 'when the job got it';
COMMENT ON COLUMN oar_report.assigned_amounts.released_at IS 'when it gave it back, NULL if it holds it';
COMMENT ON COLUMN oar_report.assigned_amounts.seconds IS 'how long it held it, to now if it does';

CREATE OR REPLACE VIEW oar_report.moldable_alternatives AS
SELECT j.job_id, m.moldable_id, m.position AS alternative,
       extract(epoch FROM m.walltime)::double precision AS walltime_seconds,
       coalesce(asked.request, '') || coalesce(amounts.request, '') AS request,
       coalesce(m.moldable_id = j.moldable_id, false) AS chosen
FROM public.jobs j JOIN public.moldable_descriptions m USING (submission_id)
LEFT JOIN LATERAL (
    SELECT string_agg(part.text, '+' ORDER BY part.position) AS request FROM (
        SELECT g.position, CASE WHEN g.filter = '' THEN '' ELSE '{' || g.filter || '}' END
            || coalesce((SELECT string_agg('/' || d.level || '='
                   || CASE d.count WHEN -1 THEN 'ALL' WHEN -2 THEN 'BEST' WHEN -3 THEN 'BESTHALF' ELSE d.count::text END,
                   '' ORDER BY d.position)
               FROM public.resource_descriptions d WHERE d.group_id = g.group_id), '') AS text
        FROM public.resource_groups g WHERE g.moldable_id = m.moldable_id) part
) asked ON true
LEFT JOIN LATERAL (
    SELECT string_agg(',' || c.consumable || '=' || c.amount, '' ORDER BY c.position) AS request
    FROM public.consumption_descriptions c WHERE c.moldable_id = m.moldable_id
) amounts ON true;
