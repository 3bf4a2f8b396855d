"""Which file mode creation mask a job gets, whatever its submission says."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from oarpy.frontend import submission_environment
from oarpy.transport.agent.job import spawning
from oarpy.transport.agent.job.spawning import umask_of


def mask_now() -> int:
    mask = os.umask(0o022)
    os.umask(mask)
    return mask


@pytest.mark.parametrize(
    ("word", "mask"),
    [
        ("0077", 0o077),
        ("2", 0o002),
        ("0", 0),
        ("777", 0o777),
        ("1000", 0o022),
        ("-1", 0o022),
        ("", 0o022),
        ("9", 0o022),
        ("u=rwx", 0o022),
        (None, 0o022),
    ],
)
def test_what_is_no_mask_is_not_heeded(word: str | None, mask: int) -> None:
    before = mask_now()
    with umask_of({} if word is None else {spawning.UMASK: word}):
        assert mask_now() == mask
    assert mask_now() == before


def test_the_mask_of_a_submission_is_that_of_its_process() -> None:
    before = os.umask(0o027)
    try:
        assert submission_environment.submission_environment()[spawning.UMASK] == "0027"
        assert mask_now() == 0o027
    finally:
        os.umask(before)
    assert submission_environment.UMASK == spawning.UMASK


@pytest.mark.parametrize(("given", "kept"), [({}, None), ({"LC_CTYPE": "C.UTF-8"}, "C.UTF-8")])
def test_what_python_adds_where_the_locale_is_c_is_no_variable_of_the_user(
    given: dict[str, str], kept: str | None
) -> None:
    program = "import os; from oarpy.frontend.submission_environment import submission_environment as found;" + (
        "print(os.environ['LC_CTYPE'], found().get('LC_CTYPE'))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], env={"LANG": "C", **given}, capture_output=True, text=True, check=True
    )
    assert done.stdout == f"C.UTF-8 {kept}\n"
