CREATE OR REPLACE VIEW oar_report.job_state_history AS
SELECT l.job_id, l.state, l.previous_state, t.event, t.who, lower(l.during) AS entered_at,
       upper(l.during) AS left_at,
       CASE WHEN s.final THEN NULL
            ELSE extract(epoch FROM coalesce(upper(l.during), now()) - lower(l.during))::double precision END AS seconds
FROM oar_all.job_state_logs l JOIN public.job_states s USING (state)
LEFT JOIN public.job_transitions t ON (t.from_state, t.to_state) = (l.previous_state, l.state);
COMMENT ON VIEW oar_report.job_state_history IS 'every state of every job, with how long it stayed there';
COMMENT ON COLUMN oar_report.job_state_history.job_id IS 'the job';
COMMENT ON COLUMN oar_report.job_state_history.state IS 'the state';
COMMENT ON COLUMN oar_report.job_state_history.previous_state IS 'where it came from, NULL at submission';
COMMENT ON COLUMN oar_report.job_state_history.event IS 'what such a move means';
COMMENT ON COLUMN oar_report.job_state_history.who IS 'the module or command that makes such a move';
COMMENT ON COLUMN oar_report.job_state_history.entered_at IS 'when it entered the state';
COMMENT ON COLUMN oar_report.job_state_history.left_at IS 'when it left it, NULL if it is there';
COMMENT ON COLUMN oar_report.job_state_history.seconds IS 'time spent there, to now if it is there; NULL for final states';
