CREATE OR REPLACE VIEW oar_compat.gantt_jobs_predictions_visu AS
SELECT moldable_job_id, start_time FROM oar_compat.gantt_jobs_predictions;
COMMENT ON VIEW oar_compat.gantt_jobs_predictions_visu IS 'the same, for programs that draw';
COMMENT ON COLUMN oar_compat.gantt_jobs_predictions_visu.moldable_job_id IS
    'the alternative of the job; 0: the row of the last pass';
COMMENT ON COLUMN oar_compat.gantt_jobs_predictions_visu.start_time IS
    'when it starts, or started; of the last pass when it was, epoch seconds';
