-- The view has the properties of the site, so that it is made again when one comes or goes. It reads those as parts of
-- whole rows: a column that the view named itself could not be dropped.
CREATE OR REPLACE FUNCTION make_compat_resources() RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    own CONSTANT text[] := '{resource_id,type,network_address,state,drain,besteffort,deploy,available_upto,cpuset}';
    properties text;
BEGIN
    SELECT string_agg(format(', ' || CASE p.kind WHEN 'boolean' THEN 'yes_or_no((whole ->> %L)::boolean)'
                                                 WHEN 'timestamptz' THEN 'epoch_seconds((whole ->> %L)::timestamptz)'
                                                 WHEN 'integer' THEN '(whole ->> %L)::integer'
                                                 ELSE 'whole ->> %L' END || ' AS %I', p.name, p.name),
                      '' ORDER BY a.attnum)
    INTO properties
    FROM resource_properties p JOIN pg_attribute a ON a.attrelid = 'resources'::regclass AND a.attname = p.name
    WHERE p.name <> ALL (own);
    DROP VIEW IF EXISTS oar_compat.resources;
    EXECUTE format($view$
        CREATE VIEW oar_compat.resources AS
        SELECT r.resource_id, r.type, coalesce(r.network_address, '') AS network_address, r.state,
               'UnChanged'::text AS next_state, yes_or_no(r.state_by = 'monitor') AS finaud_decision,
               'NO'::text AS next_finaud_decision,
               CASE r.state WHEN 'Alive' THEN 1 WHEN 'Absent' THEN 2 WHEN 'Suspected' THEN 3 ELSE 4 END AS state_num,
               yes_or_no(EXISTS (SELECT FROM public.assigned_resources a
                                 WHERE a.resource_id = r.resource_id AND a.suspended)) AS suspended_jobs,
               0 AS scheduler_priority, coalesce(r.cpuset::text, '0') AS cpuset, yes_or_no(r.besteffort) AS besteffort,
               yes_or_no(r.deploy) AS deploy, 0 AS expiry_date, 'NO'::text AS desktop_computing, 0 AS last_job_date,
               woken_until(r.available_upto, EXISTS (
                   SELECT FROM public.node_power p
                   WHERE p.network_address = r.network_address AND p.asked = 'sleep')) AS available_upto,
               0 AS last_available_upto, yes_or_no(r.drain) AS drain%s
        FROM public.resources r CROSS JOIN LATERAL (SELECT to_jsonb(r) AS whole OFFSET 0) w
    $view$, properties);
    COMMENT ON VIEW oar_compat.resources IS
        'the resources, with the properties of the site; what oarpy does not have is 0, NO or UnChanged';
END $$;
COMMENT ON FUNCTION make_compat_resources IS 'make the view oar_compat.resources, after a change of properties';
