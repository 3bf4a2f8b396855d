"""Programs over clusters whose processes are mapped, their maps, and what parts know of those on other clusters.

Revision ID: 0106
"""

from __future__ import annotations

from alembic import op

revision = "0106"
down_revision = "0105"

_TABLES = """
CREATE TABLE grid_programs (
    job BIGINT NOT NULL,
    program TEXT NOT NULL CONSTRAINT grid_programs_program_check CHECK (octet_length(program) BETWEEN 1 AND 1000),
    program_size BIGINT NOT NULL CONSTRAINT grid_programs_program_size_check CHECK (program_size >= 0),
    program_date BIGINT NOT NULL,
    arguments TEXT NOT NULL CONSTRAINT grid_programs_arguments_check CHECK (octet_length(arguments) <= 1000),
    script TEXT NOT NULL CONSTRAINT grid_programs_script_check CHECK (script <> ''),
    processes INTEGER NOT NULL CONSTRAINT grid_programs_processes_check CHECK (processes > 0),
    iterations BIGINT NOT NULL CONSTRAINT grid_programs_iterations_check CHECK (iterations > 0),
    sizes TEXT[] NOT NULL
        CONSTRAINT grid_programs_sizes_check
        CHECK ((sizes <> '{}')
            AND ((sizes = '{}') OR ((array_ndims(sizes) = 1) AND (array_position(sizes, NULL) IS NULL)))),
    model TEXT NOT NULL CONSTRAINT grid_programs_model_check CHECK (model <> ''),
    own_walltime BOOLEAN NOT NULL,
    live BOOLEAN DEFAULT true NOT NULL,
    map JSONB,
    map_before JSONB,
    CONSTRAINT grid_programs_pkey PRIMARY KEY (job),
    CONSTRAINT grid_programs_job_fkey FOREIGN KEY(job) REFERENCES grid_metajobs (job) ON DELETE CASCADE
);
COMMENT ON TABLE grid_programs IS
    'programs of metajobs whose processes are mapped over types of nodes, and the map that goes with the place of each';
COMMENT ON COLUMN grid_programs.job IS 'the job';
COMMENT ON COLUMN grid_programs.program IS 'path of the program, or its name';
COMMENT ON COLUMN grid_programs.program_size IS 'its size in bytes';
COMMENT ON COLUMN grid_programs.program_date IS 'when it was changed, in epoch seconds';
COMMENT ON COLUMN grid_programs.arguments IS 'what follows it in the command';
COMMENT ON COLUMN grid_programs.script IS 'script by which clusters measure its rates';
COMMENT ON COLUMN grid_programs.processes IS 'how many processes it has';
COMMENT ON COLUMN grid_programs.iterations IS 'iterations of each process';
COMMENT ON COLUMN grid_programs.sizes IS 'sizes of its processes';
COMMENT ON COLUMN grid_programs.model IS 'sync, async, or the name of a plug-in';
COMMENT ON COLUMN grid_programs.own_walltime IS
    'its user gave a walltime, with which it runs if there are no rates';
COMMENT ON COLUMN grid_programs.live IS 'its processes are mapped; false: it runs without a map';
COMMENT ON COLUMN grid_programs.map IS
    'predicted seconds, and by cluster and type of nodes the cores and what they run; NULL: no place yet';
COMMENT ON COLUMN grid_programs.map_before IS 'the same of its place before; NULL: it has not moved';
ALTER TABLE door_parts ADD COLUMN process_map TEXT[] DEFAULT '{}' NOT NULL
    CONSTRAINT door_parts_process_map_check
    CHECK ((process_map = '{}') OR ((array_ndims(process_map) = 1) AND (array_position(process_map, NULL) IS NULL)));
COMMENT ON COLUMN door_parts.process_map IS 'processes of components on other clusters, as the broker told';
"""


def upgrade() -> None:
    """Make the table and the column."""
    op.execute(_TABLES)


def downgrade() -> None:
    """Drop them: such jobs go on with the walltimes of their places."""
    op.execute("DROP TABLE grid_programs; ALTER TABLE door_parts DROP COLUMN process_map")
