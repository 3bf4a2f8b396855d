CREATE OR REPLACE VIEW oar_report.node_absences AS
SELECT network_address, reason, author, lower(during) AS away_at, upper(during) AS back_at,
       extract(epoch FROM coalesce(upper(during), now()) - lower(during))::double precision AS seconds
FROM public.node_away_logs;
COMMENT ON VIEW oar_report.node_absences IS 'why nodes were drained or down, who said so, and how long that was so';
COMMENT ON COLUMN oar_report.node_absences.network_address IS 'the node';
COMMENT ON COLUMN oar_report.node_absences.reason IS 'why, empty when nobody said';
COMMENT ON COLUMN oar_report.node_absences.author IS 'who drained it or took it down, or said why';
COMMENT ON COLUMN oar_report.node_absences.away_at IS 'since when that was so';
COMMENT ON COLUMN oar_report.node_absences.back_at IS 'until when, NULL if it is so';
COMMENT ON COLUMN oar_report.node_absences.seconds IS 'how long, to now if it is so';
