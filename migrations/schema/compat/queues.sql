CREATE OR REPLACE VIEW oar_compat.queues AS
SELECT queue_name, priority, policy AS scheduler_policy,
       CASE WHEN active THEN 'Active' ELSE 'notActive' END AS state FROM public.queues;
COMMENT ON VIEW oar_compat.queues IS 'the queues';
COMMENT ON COLUMN oar_compat.queues.queue_name IS 'name of the queue';
COMMENT ON COLUMN oar_compat.queues.priority IS 'higher goes first';
COMMENT ON COLUMN oar_compat.queues.scheduler_policy IS 'order of its jobs';
COMMENT ON COLUMN oar_compat.queues.state IS 'Active or notActive';
