CREATE OR REPLACE VIEW oar_compat.accounting AS
SELECT epoch_seconds(window_start) AS window_start, epoch_seconds(window_stop) AS window_stop,
       user_name AS accounting_user, project AS accounting_project, queue_name, consumption_type,
       round(consumption)::bigint AS consumption
FROM public.accounting WHERE consumption_type IN ('ASKED', 'USED');
COMMENT ON VIEW oar_compat.accounting IS 'consumption by window, user, project and queue';
COMMENT ON COLUMN oar_compat.accounting.window_start IS 'begin of the window, epoch seconds';
COMMENT ON COLUMN oar_compat.accounting.window_stop IS 'its end';
COMMENT ON COLUMN oar_compat.accounting.accounting_user IS 'the user';
COMMENT ON COLUMN oar_compat.accounting.accounting_project IS 'the project';
COMMENT ON COLUMN oar_compat.accounting.queue_name IS 'the queue';
COMMENT ON COLUMN oar_compat.accounting.consumption_type IS 'ASKED or USED';
COMMENT ON COLUMN oar_compat.accounting.consumption IS 'resource-seconds';
