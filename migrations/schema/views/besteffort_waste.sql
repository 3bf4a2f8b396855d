CREATE OR REPLACE VIEW oar_report.besteffort_waste AS
SELECT day, user_name, project, gave_way AS jobs, wasted_seconds / 3600 AS wasted_hours
FROM public.job_days WHERE gave_way > 0;
COMMENT ON VIEW oar_report.besteffort_waste IS 'best-effort jobs that were ended for others, by day, user and project';
COMMENT ON COLUMN oar_report.besteffort_waste.day IS 'the day on which they ended, in UTC';
COMMENT ON COLUMN oar_report.besteffort_waste.user_name IS 'the user';
COMMENT ON COLUMN oar_report.besteffort_waste.project IS 'the project';
COMMENT ON COLUMN oar_report.besteffort_waste.jobs IS 'how many gave way';
COMMENT ON COLUMN oar_report.besteffort_waste.wasted_hours IS 'resource-hours that they had run';
