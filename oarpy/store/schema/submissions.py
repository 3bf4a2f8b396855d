"""The common part of the jobs of one oarsub: the request and its alternatives."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Double,
    ForeignKey,
    Identity,
    Index,
    Integer,
    SmallInteger,
    Text,
    UniqueConstraint,
    text,
)
from sqlalchemy.dialects.postgresql import ARRAY, INTERVAL, JSONB

from oarpy.store.schema.columns import INSTANT, LONGEST_REQUEST, NOW, column, table

kept_scripts = table(
    "kept_scripts",
    "scripts of jobs as they were submitted, each once; for their users and nobody else",
    column("digest", Text, "SHA-256 of the script in UTF-8", key=True, check="digest ~ '^[0-9a-f]{64}$'"),
    column("content", Text, "the script"),
    column("asked_at", INSTANT, "when a submission last had it", default=NOW),
)

submissions = table(
    "submissions",
    "what the jobs of one oarsub share",
    column("submission_id", BigInteger, "number of the submission", Identity(always=True), key=True),
    column("initial_request", Text, "the command line as typed", default=""),
    column(
        "environment",
        JSONB,
        "environment variables of the user",
        default="{}",
        check="(jsonb_typeof(environment) = 'object')"
        " AND (NOT jsonb_path_exists(environment, '$.* ? (@.type() <> \"string\")'))",
    ),
    column(
        "request", JSONB, "the submission as the admission rules first saw it, to run rules again on it", default="{}"
    ),
    column("submitted_from", Text, "host that it came from", default=""),
    column(
        "admitted_filters",
        ARRAY(Text),
        "filters as the admission rules left them, that of the job first; empty: not known",
        default="{}",
    ),
    column("kind", BigInteger, "number that submissions of the same kind share; NULL: none", optional=True),
    column(
        "script",
        Text,
        "digest of the script that the command begins with, as it was submitted; NULL: none is kept",
        optional=True,
        check="script ~ '^[0-9a-f]{64}$'",
    ),
    column(
        "asked_units",
        Double,
        "billing units, in hours, that each job of it asks for, where projects pay; NULL: nobody counted",
        optional=True,
        check="asked_units >= 0",
    ),
    Index("submissions_script", "script", postgresql_where=text("script IS NOT NULL")),
)

moldable_descriptions = table(
    "moldable_descriptions",
    "the alternatives of a submission, one for each -l",
    column("moldable_id", BigInteger, "number of the alternative", Identity(always=True), key=True),
    column("submission_id", BigInteger, "the submission", ForeignKey(submissions.c.submission_id, ondelete="CASCADE")),
    column("position", SmallInteger, "its place among them, from 0; the first wins ties", check="position >= 0"),
    column(
        "walltime",
        INTERVAL,
        "how long it may run",
        check=f"EXTRACT(epoch FROM walltime) BETWEEN 1 AND {LONGEST_REQUEST}",
    ),
    UniqueConstraint("submission_id", "position"),
    UniqueConstraint("submission_id", "moldable_id", name="moldable_descriptions_of_submission"),
)

resource_groups = table(
    "resource_groups",
    "the parts of an alternative, joined by +",
    column("group_id", BigInteger, "number of the part", Identity(always=True), key=True),
    column(
        "moldable_id",
        BigInteger,
        "the alternative",
        ForeignKey(moldable_descriptions.c.moldable_id, ondelete="CASCADE"),
    ),
    column("position", SmallInteger, "its place, from 0", check="position >= 0"),
    column("filter", Text, "SQL condition on resources, empty for none", default=""),
    UniqueConstraint("moldable_id", "position"),
)

resource_descriptions = table(
    "resource_descriptions",
    "the levels of a part, such as /nodes=2/core=4",
    column("group_id", BigInteger, "the part", ForeignKey(resource_groups.c.group_id, ondelete="CASCADE"), key=True),
    column("position", SmallInteger, "its place, from 0", key=True, check="position >= 0"),
    column(
        "level",
        Text,
        "property that is counted",
        check="(level ~ '^[A-Za-z_][A-Za-z0-9_]*$') AND (length(level) <= 63)",
    ),
    column("count", Integer, "-1 = ALL, -2 = BEST, -3 = BESTHALF", check="(count > 0) OR (count IN (-1, -2, -3))"),
)

consumption_descriptions = table(
    "consumption_descriptions",
    "the amounts of consumables that an alternative asks for",
    column(
        "moldable_id",
        BigInteger,
        "the alternative",
        ForeignKey(moldable_descriptions.c.moldable_id, ondelete="CASCADE"),
        key=True,
    ),
    column(
        "consumable",
        Text,
        "the consumable, which may be gone by now",
        key=True,
        check="consumable ~ '^[A-Za-z_][A-Za-z0-9_]{0,62}$'",
    ),
    column("position", SmallInteger, "its place in the request, from 0", check="position >= 0"),
    column(
        "amount",
        BigInteger,
        "how much on each block that the job has resources of",
        check="amount BETWEEN 1 AND 9007199254740992",
    ),
)
