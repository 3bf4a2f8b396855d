"""Rates of programs are kept, and jobs whose processes are mapped by them have their maps.

Revision ID: 0094
"""

from __future__ import annotations

from alembic import op

from oarpy.store.schema.statements import follow, make

revision = "0094"
down_revision = "0093"

_TABLES = """
CREATE TABLE application_rates (
    user_name TEXT NOT NULL
        CONSTRAINT application_rates_user_name_check CHECK (octet_length(user_name) BETWEEN 1 AND 200),
    program TEXT NOT NULL CONSTRAINT application_rates_program_check CHECK (octet_length(program) BETWEEN 1 AND 1000),
    program_size BIGINT NOT NULL CONSTRAINT application_rates_program_size_check CHECK (program_size >= 0),
    program_date BIGINT NOT NULL,
    arguments TEXT NOT NULL CONSTRAINT application_rates_arguments_check CHECK (octet_length(arguments) <= 1000),
    size_name TEXT NOT NULL
        CONSTRAINT application_rates_size_name_check CHECK (octet_length(size_name) BETWEEN 1 AND 100),
    node_type TEXT NOT NULL
        CONSTRAINT application_rates_node_type_check CHECK (octet_length(node_type) BETWEEN 1 AND 200),
    rate DOUBLE PRECISION NOT NULL
        CONSTRAINT application_rates_rate_check
        CHECK ((rate > 0) AND (rate BETWEEN -9007199254740992 AND 9007199254740992)),
    measured_at TIMESTAMP WITH TIME ZONE DEFAULT clock_timestamp() NOT NULL
        CONSTRAINT application_rates_measured_at_check
        CHECK ((measured_at >= TIMESTAMPTZ '1970-01-01 00:00:00+00')
            AND (measured_at < TIMESTAMPTZ '3000-01-01 00:00:00+00')),
    CONSTRAINT application_rates_pkey
        PRIMARY KEY (user_name, program, program_size, program_date, arguments, size_name, node_type)
);
COMMENT ON TABLE application_rates IS
    'iterations a second that processes of programs make, as measured; a rate is of its user alone';
COMMENT ON COLUMN application_rates.user_name IS 'whose it is';
COMMENT ON COLUMN application_rates.program IS 'path of the program, or its name';
COMMENT ON COLUMN application_rates.program_size IS 'its size in bytes';
COMMENT ON COLUMN application_rates.program_date IS 'when it was changed, in epoch seconds';
COMMENT ON COLUMN application_rates.arguments IS 'what follows it in the command';
COMMENT ON COLUMN application_rates.size_name IS 'size of the process';
COMMENT ON COLUMN application_rates.node_type IS 'type of the node: value of scheduler.node_type';
COMMENT ON COLUMN application_rates.rate IS 'iterations a second on one core';
COMMENT ON COLUMN application_rates.measured_at IS 'when it was measured';
CREATE TABLE rate_measurements (
    job_id BIGINT NOT NULL,
    program TEXT NOT NULL CONSTRAINT rate_measurements_program_check CHECK (octet_length(program) BETWEEN 1 AND 1000),
    program_size BIGINT NOT NULL CONSTRAINT rate_measurements_program_size_check CHECK (program_size >= 0),
    program_date BIGINT NOT NULL,
    arguments TEXT NOT NULL CONSTRAINT rate_measurements_arguments_check CHECK (octet_length(arguments) <= 1000),
    sizes TEXT[] NOT NULL
        CONSTRAINT rate_measurements_sizes_check
        CHECK ((sizes <> '{}')
            AND ((sizes = '{}') OR ((array_ndims(sizes) = 1) AND (array_position(sizes, NULL) IS NULL)))),
    node_type TEXT NOT NULL,
    failure TEXT DEFAULT '' NOT NULL,
    CONSTRAINT rate_measurements_pkey PRIMARY KEY (job_id),
    CONSTRAINT rate_measurements_job_id_fkey FOREIGN KEY(job_id) REFERENCES jobs (job_id) ON DELETE CASCADE
);
COMMENT ON TABLE rate_measurements IS
    'jobs that measure the rates of a program on one type of nodes';
COMMENT ON COLUMN rate_measurements.job_id IS 'the job that measures';
COMMENT ON COLUMN rate_measurements.program IS 'path of the program, or its name';
COMMENT ON COLUMN rate_measurements.program_size IS 'its size in bytes';
COMMENT ON COLUMN rate_measurements.program_date IS 'when it was changed, in epoch seconds';
COMMENT ON COLUMN rate_measurements.arguments IS 'what follows it in the command';
COMMENT ON COLUMN rate_measurements.sizes IS 'sizes of processes that it measures';
COMMENT ON COLUMN rate_measurements.node_type IS 'type of its node';
COMMENT ON COLUMN rate_measurements.failure IS 'why it has no rates, as far as it said so';
CREATE TABLE mapped_jobs (
    job_id BIGINT NOT NULL,
    program TEXT NOT NULL CONSTRAINT mapped_jobs_program_check CHECK (octet_length(program) BETWEEN 1 AND 1000),
    program_size BIGINT NOT NULL CONSTRAINT mapped_jobs_program_size_check CHECK (program_size >= 0),
    program_date BIGINT NOT NULL,
    arguments TEXT NOT NULL CONSTRAINT mapped_jobs_arguments_check CHECK (octet_length(arguments) <= 1000),
    processes INTEGER NOT NULL CONSTRAINT mapped_jobs_processes_check CHECK (processes > 0),
    iterations BIGINT NOT NULL CONSTRAINT mapped_jobs_iterations_check CHECK (iterations > 0),
    sizes TEXT[] NOT NULL
        CONSTRAINT mapped_jobs_sizes_check
        CHECK ((sizes <> '{}')
            AND ((sizes = '{}') OR ((array_ndims(sizes) = 1) AND (array_position(sizes, NULL) IS NULL)))),
    model TEXT NOT NULL CONSTRAINT mapped_jobs_model_check CHECK (model <> ''),
    cores INTEGER NOT NULL CONSTRAINT mapped_jobs_cores_check CHECK (cores > 0),
    own_walltime BOOLEAN NOT NULL,
    live BOOLEAN DEFAULT true NOT NULL,
    rates_at TIMESTAMP WITH TIME ZONE DEFAULT clock_timestamp() NOT NULL
        CONSTRAINT mapped_jobs_rates_at_check
        CHECK ((rates_at >= TIMESTAMPTZ '1970-01-01 00:00:00+00')
            AND (rates_at < TIMESTAMPTZ '3000-01-01 00:00:00+00')),
    seconds DOUBLE PRECISION
        CONSTRAINT mapped_jobs_seconds_check
        CHECK ((seconds > 0) AND (seconds BETWEEN -9007199254740992 AND 9007199254740992)),
    walltime INTEGER CONSTRAINT mapped_jobs_walltime_check CHECK (walltime > 0),
    node_property TEXT DEFAULT '' NOT NULL,
    node_types JSONB,
    assigned JSONB,
    CONSTRAINT mapped_jobs_pkey PRIMARY KEY (job_id),
    CONSTRAINT mapped_jobs_job_id_fkey FOREIGN KEY(job_id) REFERENCES jobs (job_id) ON DELETE CASCADE
);
COMMENT ON TABLE mapped_jobs IS
    'jobs whose processes are mapped over unlike nodes, and the map that goes with the place of each';
COMMENT ON COLUMN mapped_jobs.job_id IS 'the job';
COMMENT ON COLUMN mapped_jobs.program IS 'path of the program, or its name';
COMMENT ON COLUMN mapped_jobs.program_size IS 'its size in bytes';
COMMENT ON COLUMN mapped_jobs.program_date IS 'when it was changed, in epoch seconds';
COMMENT ON COLUMN mapped_jobs.arguments IS 'what follows it in the command';
COMMENT ON COLUMN mapped_jobs.processes IS 'how many processes it has';
COMMENT ON COLUMN mapped_jobs.iterations IS 'iterations of each process';
COMMENT ON COLUMN mapped_jobs.sizes IS 'sizes of its processes';
COMMENT ON COLUMN mapped_jobs.model IS 'sync, async, or the name of a plug-in';
COMMENT ON COLUMN mapped_jobs.cores IS 'how many cores it takes';
COMMENT ON COLUMN mapped_jobs.own_walltime IS 'its user gave a walltime, with which it runs if there are no rates';
COMMENT ON COLUMN mapped_jobs.live IS 'it is mapped as long as it waits; false: it is over, or runs without a map';
COMMENT ON COLUMN mapped_jobs.rates_at IS 'when its rates changed';
COMMENT ON COLUMN mapped_jobs.seconds IS 'how long it is predicted to run; NULL: it has no place yet';
COMMENT ON COLUMN mapped_jobs.walltime IS 'the walltime that follows, in seconds';
COMMENT ON COLUMN mapped_jobs.node_property IS
    'scheduler.node_type, by which they have types; empty: all have one type';
COMMENT ON COLUMN mapped_jobs.node_types IS 'the cores that it has there, by type of node';
COMMENT ON COLUMN mapped_jobs.assigned IS
    'by type of node: sizes, heaviest first, with the processes and the seconds that one takes';
CREATE INDEX mapped_jobs_live ON mapped_jobs (job_id) WHERE live;
"""


def upgrade() -> None:
    """Make the tables, tell passes of changes of rates, and show how near predictions were."""
    op.execute(_TABLES)
    make(op.get_bind(), "functions", "rates_changed")
    make(op.get_bind(), "views", "mapping_accuracy")


def downgrade() -> None:
    """Forget rates and maps; jobs that wait have the walltimes of their requests."""
    op.execute("DROP VIEW IF EXISTS oar_report.mapping_accuracy")
    op.execute("DROP TABLE application_rates, rate_measurements, mapped_jobs; DROP FUNCTION rates_changed")
    follow(op.get_bind())
