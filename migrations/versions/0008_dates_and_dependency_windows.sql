-- The window that a job leaves to another one that depends on it: from, and up to, so long after its start or end.
ALTER TABLE job_dependencies
    ADD COLUMN earliest_edge text CHECK (earliest_edge IN ('start', 'end')),
    ADD COLUMN earliest_shift interval,
    ADD COLUMN latest_edge text CHECK (latest_edge IN ('start', 'end')),
    ADD COLUMN latest_shift interval,
    ADD CONSTRAINT earliest_whole CHECK ((earliest_edge IS NULL) = (earliest_shift IS NULL)),
    ADD CONSTRAINT latest_whole CHECK ((latest_edge IS NULL) = (latest_shift IS NULL));
COMMENT ON COLUMN job_dependencies.earliest_edge IS
    'start or end: what of the required job the earliest start counts from; NULL: not before its end';
COMMENT ON COLUMN job_dependencies.earliest_shift IS 'how long after that, negative for before';
COMMENT ON COLUMN job_dependencies.latest_edge IS
    'start or end: what of the required job the latest start counts from; NULL: no latest start';
COMMENT ON COLUMN job_dependencies.latest_shift IS 'how long after that, negative for before';

ALTER TABLE gantt_predictions DROP CONSTRAINT gantt_predictions_verdict_check,
    ADD CONSTRAINT gantt_predictions_verdict_check CHECK (verdict IN (
        'starts', 'reserved', 'held', 'dependency', 'date', 'reservation', 'quota', 'resources_busy',
        'behind_higher_priority', 'resources_down', 'never'));
