-- Sets of quota rules that are valid at certain times; rules of no set are valid always.
CREATE TABLE quota_sets (
    set_name text PRIMARY KEY CHECK (set_name ~ '^[A-Za-z0-9][A-Za-z0-9_.-]{0,62}$'),
    otherwise boolean NOT NULL DEFAULT false
);
CREATE UNIQUE INDEX quota_sets_otherwise ON quota_sets (otherwise) WHERE otherwise;
COMMENT ON TABLE quota_sets IS 'sets of quota rules that are valid together, at the times of quota_periods and quota_exceptions';
COMMENT ON COLUMN quota_sets.set_name IS 'name of the set';
COMMENT ON COLUMN quota_sets.otherwise IS 'whether it is valid whenever no period and no exception is; at most one is';

ALTER TABLE quotas
    ADD COLUMN set_name text REFERENCES quota_sets ON UPDATE CASCADE ON DELETE CASCADE,
    DROP CONSTRAINT quotas_queue_name_project_job_type_user_name_key,
    ADD CONSTRAINT one_rule_a_key UNIQUE NULLS NOT DISTINCT (queue_name, project, job_type, user_name, set_name);
COMMENT ON COLUMN quotas.set_name IS 'the rule holds when this set is valid; NULL: always';

CREATE TABLE quota_periods (
    period_id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    set_name text NOT NULL REFERENCES quota_sets ON UPDATE CASCADE ON DELETE CASCADE,
    weekday smallint NOT NULL CHECK (weekday BETWEEN 1 AND 7),
    begins time NOT NULL DEFAULT '00:00',
    ends time NOT NULL DEFAULT '24:00',
    label text NOT NULL DEFAULT '',
    CONSTRAINT begins_before_end CHECK (begins < ends),
    CONSTRAINT one_set_at_a_time EXCLUDE USING gist
        (weekday WITH =, numrange(extract(epoch FROM begins), extract(epoch FROM ends)) WITH &&)
);
COMMENT ON TABLE quota_periods IS 'when in the week a set of quota rules is valid, in the time zone scheduler.time_zone';
COMMENT ON COLUMN quota_periods.period_id IS 'number of the period';
COMMENT ON COLUMN quota_periods.set_name IS 'the set that is valid';
COMMENT ON COLUMN quota_periods.weekday IS '1 (Monday) to 7 (Sunday)';
COMMENT ON COLUMN quota_periods.begins IS 'time of that day from which it is';
COMMENT ON COLUMN quota_periods.ends IS 'time of that day until which it is, 24:00 for all of the day';
COMMENT ON COLUMN quota_periods.label IS 'what people call the period';

CREATE TABLE quota_exceptions (
    exception_id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    set_name text NOT NULL REFERENCES quota_sets ON UPDATE CASCADE ON DELETE CASCADE,
    begins_at timestamptz NOT NULL,
    ends_at timestamptz NOT NULL,
    label text NOT NULL DEFAULT '',
    CONSTRAINT begins_before_end CHECK (begins_at < ends_at),
    CONSTRAINT one_exception_at_a_time EXCLUDE USING gist (tstzrange(begins_at, ends_at) WITH &&)
);
COMMENT ON TABLE quota_exceptions IS 'dates on which a set of quota rules is valid, whatever quota_periods says';
COMMENT ON COLUMN quota_exceptions.exception_id IS 'number of the exception';
COMMENT ON COLUMN quota_exceptions.set_name IS 'the set that is valid';
COMMENT ON COLUMN quota_exceptions.begins_at IS 'when it begins to be valid';
COMMENT ON COLUMN quota_exceptions.ends_at IS 'when it ceases to be valid';
COMMENT ON COLUMN quota_exceptions.label IS 'what people call these dates';

CREATE TRIGGER announced_new AFTER INSERT ON quota_sets
    REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION announced('quotas changed');
CREATE TRIGGER announced AFTER UPDATE ON quota_sets
    REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION announced('quotas changed');
CREATE TRIGGER announced_gone AFTER DELETE ON quota_sets
    REFERENCING OLD TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION announced('quotas changed');
CREATE TRIGGER announced_new AFTER INSERT ON quota_periods
    REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION announced('quotas changed');
CREATE TRIGGER announced AFTER UPDATE ON quota_periods
    REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION announced('quotas changed');
CREATE TRIGGER announced_gone AFTER DELETE ON quota_periods
    REFERENCING OLD TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION announced('quotas changed');
CREATE TRIGGER announced_new AFTER INSERT ON quota_exceptions
    REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION announced('quotas changed');
CREATE TRIGGER announced AFTER UPDATE ON quota_exceptions
    REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION announced('quotas changed');
CREATE TRIGGER announced_gone AFTER DELETE ON quota_exceptions
    REFERENCING OLD TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION announced('quotas changed');
