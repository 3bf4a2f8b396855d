CREATE OR REPLACE VIEW oar_report.offers AS
SELECT o.offer_id, o.job_id, j.user_name, j.project, j.queue_name, o.made_at, o.valid_until, o.start_time, o.end_time,
       o.phi, o.accepted_job, coalesce(n.reservation_state = 'Scheduled', false) AS became_job
FROM oar_all.reservation_offers o JOIN oar_all.jobs j ON j.month = o.month AND j.job_id = o.job_id
LEFT JOIN oar_all.jobs n ON n.job_id = o.accepted_job;
COMMENT ON VIEW oar_report.offers IS 'other starts that refused reservations were offered, and what came of them';
COMMENT ON COLUMN oar_report.offers.offer_id IS 'number of the offer';
COMMENT ON COLUMN oar_report.offers.job_id IS 'the reservation that was refused, which may have several offers';
COMMENT ON COLUMN oar_report.offers.user_name IS 'whose it was';
COMMENT ON COLUMN oar_report.offers.project IS 'the project that it was for';
COMMENT ON COLUMN oar_report.offers.queue_name IS 'its queue';
COMMENT ON COLUMN oar_report.offers.made_at IS 'when the offer was made';
COMMENT ON COLUMN oar_report.offers.valid_until IS 'until when it could be taken';
COMMENT ON COLUMN oar_report.offers.start_time IS 'the start that was offered';
COMMENT ON COLUMN oar_report.offers.end_time IS 'the end';
COMMENT ON COLUMN oar_report.offers.phi IS 'how far that is from what was asked for, in walltimes';
COMMENT ON COLUMN oar_report.offers.accepted_job IS 'the job that was submitted for it, if it was taken';
COMMENT ON COLUMN oar_report.offers.became_job IS 'whether that job was accepted';
