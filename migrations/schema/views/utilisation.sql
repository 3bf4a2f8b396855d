-- A condition on the day is applied before what a day costs is computed.
CREATE OR REPLACE VIEW oar_report.utilisation AS
SELECT d.day, c.hours AS capacity_hours, u.hours AS used_hours, u.besteffort_hours,
       u.hours / nullif(c.hours, 0) AS utilisation
FROM (
    SELECT generate_series((SELECT min(lower(l.during)) AT TIME ZONE 'UTC' FROM public.resource_state_logs l)::date,
                           (now() AT TIME ZONE 'UTC')::date, interval '1 day')::date AS day
) d
CROSS JOIN LATERAL (
    SELECT tstzrange(d.day::timestamp AT TIME ZONE 'UTC', (d.day + 1)::timestamp AT TIME ZONE 'UTC') AS span
) s
CROSS JOIN LATERAL (
    SELECT (coalesce(sum(extract(epoch FROM least(upper(l.during), upper(s.span), now())
                                            - greatest(lower(l.during), lower(s.span)))), 0) / 3600)::double precision
               AS hours
    FROM public.resource_state_logs l JOIN public.resources r USING (resource_id)
    WHERE l.during && s.span AND l.state = 'Alive' AND r.type = 'default'
) c
CROSS JOIN LATERAL (
    SELECT (coalesce(sum(a.consumption), 0) / 3600)::double precision AS hours,
           (coalesce(sum(a.consumption) FILTER (WHERE a.queue_name = 'besteffort'), 0) / 3600)::double precision
               AS besteffort_hours
    FROM public.accounting a
    WHERE a.window_start >= lower(s.span) AND a.window_start < upper(s.span) AND a.consumption_type = 'USED'
) u;
COMMENT ON VIEW oar_report.utilisation IS
    'what was used of what there was, by day (UTC); jobs that still run are not in it, resources that are gone neither';
COMMENT ON COLUMN oar_report.utilisation.day IS 'the day in UTC';
COMMENT ON COLUMN oar_report.utilisation.capacity_hours IS 'resource-hours of type default that were Alive, to now';
COMMENT ON COLUMN oar_report.utilisation.used_hours IS 'resource-hours of accounted jobs in windows that begin then';
COMMENT ON COLUMN oar_report.utilisation.besteffort_hours IS 'of these in the queue besteffort';
COMMENT ON COLUMN oar_report.utilisation.utilisation IS 'the part that was used, NULL without capacity';
