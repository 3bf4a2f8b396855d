-- The next pass writes these predictions again.
DELETE FROM gantt_predictions WHERE verdict = 'date';
ALTER TABLE gantt_predictions DROP CONSTRAINT gantt_predictions_verdict_check,
    ADD CONSTRAINT gantt_predictions_verdict_check CHECK (verdict IN (
        'starts', 'reserved', 'held', 'dependency', 'reservation', 'quota', 'resources_busy',
        'behind_higher_priority', 'resources_down', 'never'));

ALTER TABLE job_dependencies DROP COLUMN earliest_edge, DROP COLUMN earliest_shift, DROP COLUMN latest_edge,
    DROP COLUMN latest_shift;
