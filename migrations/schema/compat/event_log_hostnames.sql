CREATE OR REPLACE VIEW oar_compat.event_log_hostnames AS
SELECT e.event_id, host AS hostname FROM public.event_logs e CROSS JOIN LATERAL unnest(e.hosts) host;
COMMENT ON VIEW oar_compat.event_log_hostnames IS 'the nodes of events';
COMMENT ON COLUMN oar_compat.event_log_hostnames.event_id IS 'the event';
COMMENT ON COLUMN oar_compat.event_log_hostnames.hostname IS 'a node concerned';
