CREATE OR REPLACE VIEW oar_compat.resource_logs AS
SELECT NULL::integer AS resource_log_id, resource_id, 'state'::text AS attribute, state AS value,
       epoch_seconds(lower(during)) AS date_start, epoch_seconds(upper(during)) AS date_stop,
       yes_or_no(state_by = 'monitor') AS finaud_decision
FROM public.resource_state_logs
UNION ALL
SELECT NULL, r.resource_id, 'available_upto', woken_until(r.available_upto, p.asked IS NOT NULL)::text,
       epoch_seconds(r.state_since), 0, 'NO'
FROM public.resources r LEFT JOIN public.node_power p ON p.network_address = r.network_address AND p.asked = 'sleep'
WHERE r.available_upto IS NOT NULL OR p.asked IS NOT NULL;
COMMENT ON VIEW oar_compat.resource_logs IS 'states of resources, and until when they can be woken';
COMMENT ON COLUMN oar_compat.resource_logs.resource_log_id IS 'always NULL';
COMMENT ON COLUMN oar_compat.resource_logs.resource_id IS 'the resource';
COMMENT ON COLUMN oar_compat.resource_logs.attribute IS 'state or available_upto';
COMMENT ON COLUMN oar_compat.resource_logs.value IS 'its value';
COMMENT ON COLUMN oar_compat.resource_logs.date_start IS 'since when, epoch seconds';
COMMENT ON COLUMN oar_compat.resource_logs.date_stop IS 'until when; 0: it is so';
COMMENT ON COLUMN oar_compat.resource_logs.finaud_decision IS 'YES when the monitor put it there';
