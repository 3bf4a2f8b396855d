-- Programs that draw take start_time 0 of what held resources for 1970: as in OAR, whoever was given some has begun.
CREATE OR REPLACE VIEW oar_compat.jobs AS
SELECT j.job_id, j.array_id, j.array_index,
       CASE WHEN private.shown THEN s.initial_request
            ELSE 'oarsub' || coalesce((SELECT string_agg(' -t ' || word, '') FROM unnest(j.types) word), '') END
           AS initial_request,
       j.job_name, CASE WHEN private.shown THEN s.environment::text END AS job_env, j.kind AS job_type,
       s.submitted_from AS info_type, j.state,
       coalesce(j.reservation_state, 'None') AS reservation, j.message, ''::text AS scheduler_info,
       j.user_name AS job_user, j.project, ''::text AS job_group,
       CASE WHEN private.shown THEN j.command ELSE '' END AS command, j.exit_status AS exit_code, j.queue_name,
       j.properties, CASE WHEN private.shown THEN j.launching_directory ELSE '' END AS launching_directory,
       epoch_seconds(j.submitted_at) AS submission_time,
       epoch_seconds(begun.at) AS start_time,
       epoch_seconds(CASE WHEN j.ended_at IS NOT NULL THEN greatest(j.ended_at, begun.at) END) AS stop_time,
       NULL::integer AS file_id, yes_or_no(j.accounted) AS accounted,
       CASE WHEN private.shown THEN j.notify ELSE '' END AS notify,
       CASE WHEN j.moldable_id IS NULL THEN 0 ELSE j.job_id END AS assigned_moldable_job,
       extract(epoch FROM j.checkpoint)::integer AS checkpoint, j.checkpoint_signal::integer AS checkpoint_signal,
       CASE WHEN private.shown THEN j.stdout_path ELSE '' END AS stdout_file,
       CASE WHEN private.shown THEN j.stderr_path ELSE '' END AS stderr_file,
       coalesce(j.resubmit_of, 0) AS resubmit_job_id,
       yes_or_no(j.suspended_time > interval '0' OR j.suspended_at IS NOT NULL) AS suspended
FROM public.jobs j JOIN public.submissions s USING (submission_id)
CROSS JOIN LATERAL (SELECT j.user_name = current_user AS shown) private
CROSS JOIN LATERAL (SELECT coalesce(j.started_at, (
    SELECT min(lower(a.during)) FROM public.assigned_resources a
    WHERE a.job_id = j.job_id AND j.state NOT IN ('Waiting', 'Hold')), j.reservation_start) AS at) begun;
COMMENT ON VIEW oar_compat.jobs IS 'jobs as OAR 2.5 has them; what was typed is for its user alone';
COMMENT ON COLUMN oar_compat.jobs.job_id IS 'number of the job';
COMMENT ON COLUMN oar_compat.jobs.array_id IS 'number of the first job of its array';
COMMENT ON COLUMN oar_compat.jobs.array_index IS 'place in the array, from 1';
COMMENT ON COLUMN oar_compat.jobs.initial_request IS 'the command line; of others, its types only';
COMMENT ON COLUMN oar_compat.jobs.job_name IS 'name given by the user';
COMMENT ON COLUMN oar_compat.jobs.job_env IS 'environment, of the reader''s own jobs';
COMMENT ON COLUMN oar_compat.jobs.job_type IS 'PASSIVE or INTERACTIVE';
COMMENT ON COLUMN oar_compat.jobs.info_type IS 'host that it came from';
COMMENT ON COLUMN oar_compat.jobs.state IS 'present state';
COMMENT ON COLUMN oar_compat.jobs.reservation IS 'None, toSchedule or Scheduled';
COMMENT ON COLUMN oar_compat.jobs.message IS 'last remark of the system';
COMMENT ON COLUMN oar_compat.jobs.scheduler_info IS 'always empty: oar_report.waiting_jobs tells why a job waits';
COMMENT ON COLUMN oar_compat.jobs.job_user IS 'who submitted it';
COMMENT ON COLUMN oar_compat.jobs.project IS 'project that it counts for';
COMMENT ON COLUMN oar_compat.jobs.job_group IS 'always empty';
COMMENT ON COLUMN oar_compat.jobs.command IS 'what it runs, of the reader''s own jobs';
COMMENT ON COLUMN oar_compat.jobs.exit_code IS 'wait status of its command';
COMMENT ON COLUMN oar_compat.jobs.queue_name IS 'queue that it is in';
COMMENT ON COLUMN oar_compat.jobs.properties IS 'SQL condition on its resources';
COMMENT ON COLUMN oar_compat.jobs.launching_directory IS 'directory that it starts in, of the reader''s own jobs';
COMMENT ON COLUMN oar_compat.jobs.submission_time IS 'when it was submitted, epoch seconds';
COMMENT ON COLUMN oar_compat.jobs.start_time IS 'when it started, else was given resources, else is reserved for; 0: nothing of these';
COMMENT ON COLUMN oar_compat.jobs.stop_time IS 'when it ended, never before start_time; 0: not yet';
COMMENT ON COLUMN oar_compat.jobs.file_id IS 'always NULL';
COMMENT ON COLUMN oar_compat.jobs.accounted IS 'YES once it is counted';
COMMENT ON COLUMN oar_compat.jobs.notify IS 'whom to tell, of the reader''s own jobs';
COMMENT ON COLUMN oar_compat.jobs.assigned_moldable_job IS
    'moldable_id of the alternative that was chosen; 0: none yet';
COMMENT ON COLUMN oar_compat.jobs.checkpoint IS 'how long before its end it is signalled, seconds';
COMMENT ON COLUMN oar_compat.jobs.checkpoint_signal IS 'with which signal';
COMMENT ON COLUMN oar_compat.jobs.stdout_file IS 'file for its output, of the reader''s own jobs';
COMMENT ON COLUMN oar_compat.jobs.stderr_file IS 'file for its errors, of the reader''s own jobs';
COMMENT ON COLUMN oar_compat.jobs.resubmit_job_id IS 'the job that it repeats; 0: none';
COMMENT ON COLUMN oar_compat.jobs.suspended IS 'whether it was ever suspended';
