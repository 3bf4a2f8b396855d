CREATE OR REPLACE VIEW oar_report.node_state_history AS
SELECT r.network_address, l.resource_id, l.state, l.state_by, lower(l.during) AS entered_at,
       upper(l.during) AS left_at,
       extract(epoch FROM coalesce(upper(l.during), now()) - lower(l.during))::double precision AS seconds
FROM public.resource_state_logs l JOIN public.resources r USING (resource_id);
COMMENT ON VIEW oar_report.node_state_history IS 'every state of every resource and its node, with how long it lasted';
COMMENT ON COLUMN oar_report.node_state_history.network_address IS 'the node, NULL for a resource without one';
COMMENT ON COLUMN oar_report.node_state_history.resource_id IS 'the resource';
COMMENT ON COLUMN oar_report.node_state_history.state IS 'Alive, Absent, Suspected or Dead';
COMMENT ON COLUMN oar_report.node_state_history.state_by IS 'who put it there: admin, monitor, launcher or node';
COMMENT ON COLUMN oar_report.node_state_history.entered_at IS 'when it entered the state';
COMMENT ON COLUMN oar_report.node_state_history.left_at IS 'when it left it, NULL if it is there';
COMMENT ON COLUMN oar_report.node_state_history.seconds IS 'how long it was there, to now if it is';
