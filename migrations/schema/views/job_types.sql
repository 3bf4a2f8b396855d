CREATE OR REPLACE VIEW oar_report.job_types AS
SELECT j.job_id, j.user_name, j.state, split_part(word, '=', 1) AS type,
       CASE WHEN strpos(word, '=') > 0 THEN substr(word, strpos(word, '=') + 1) END AS value
FROM oar_all.jobs j CROSS JOIN LATERAL unnest(j.types) word;
COMMENT ON VIEW oar_report.job_types IS 'one row for each word of oarsub -t';
COMMENT ON COLUMN oar_report.job_types.job_id IS 'the job';
COMMENT ON COLUMN oar_report.job_types.user_name IS 'its user';
COMMENT ON COLUMN oar_report.job_types.state IS 'its present state';
COMMENT ON COLUMN oar_report.job_types.type IS 'the word before the equals sign: besteffort, container, ...';
COMMENT ON COLUMN oar_report.job_types.value IS 'what follows the equals sign, NULL without one';
