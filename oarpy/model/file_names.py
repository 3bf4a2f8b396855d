"""Names of a job's output files: OAR's ``%jobid%``, ``%jobname%``, ``%arrayid%`` and ``%arrayindex%``."""

from __future__ import annotations


def file_name(pattern: str, *, job: int, name: str, array: int, index: int) -> str:
    """Fill in the ids and names of a job. Its name stays one component of a path, whatever is in it.

    >>> file_name("%jobname%.%arrayid%.%arrayindex%.%jobid%", job=7, name="a/b", array=5, index=3)
    'a_b.5.3.7'
    """
    plain = name.replace("/", "_")
    for what, value in (("%jobid%", job), ("%arrayid%", array), ("%arrayindex%", index), ("%jobname%", plain)):
        pattern = pattern.replace(what, str(value))
    return pattern
