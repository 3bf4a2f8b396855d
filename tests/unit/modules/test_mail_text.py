"""What a mail says: our templates, those of a site, and templates that fail."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from oarpy.modules.notifier.mail import Letter
from oarpy.modules.notifier.mail_text import MailWriter
from oarpy.store.jobs.notices import NoticeRow

END = NoticeRow(7, 12, "END", "Job stopped normally.", 1_700_000_000.0, 0, "ann", "first", "mail:ann@site.org")
ADMIN = NoticeRow(8, None, "INFO", "NODE_LOST n1: no answer", 1_700_000_000.0, 0, "", "", "")
SHIPPED = "*OAR* [END]: 12 (first) on here"


def letter(folder: Path | str, row: NoticeRow = END) -> Letter:
    return MailWriter(str(folder), "here").letter(row, "ann@site.org", "one")


def test_our_templates_have_subject_and_comment() -> None:
    assert letter("") == Letter(
        "notice-7.one", "ann@site.org", SHIPPED, "Job stopped normally.\n\nJob 12 of ann\n", END.at
    )
    told = letter("", ADMIN)
    assert (told.subject, told.text) == ("*OAR* [ADMIN]: NODE_LOST n1: no answer on here", "NODE_LOST n1: no answer\n")


def test_a_grid_job_is_called_one() -> None:
    told = letter("", replace(END, job=None, grid_job=4))
    assert (told.subject, told.text) == (
        "*OAR* [END]: grid job 4 (first) on here",
        "Job stopped normally.\n\nGrid job 4 of ann\n",
    )


def test_a_site_replaces_a_template_or_a_block_of_it(tmp_path: Path) -> None:
    (tmp_path / "job-END.txt").write_text(
        '{% extends "shipped/job.txt" %}{% block subject %}{{ job }} of {{ user }} is over{% endblock %}'
    )
    ended = letter(tmp_path)
    assert (ended.subject, ended.text) == ("12 of ann is over", "Job stopped normally.\n\nJob 12 of ann\n")
    assert letter(tmp_path, replace(END, tag="ERROR")).subject == SHIPPED.replace("END", "ERROR")
    assert letter(tmp_path, ADMIN).subject.startswith("*OAR* [ADMIN]")
    (tmp_path / "job.txt").write_text(
        "{% block subject %}any{% endblock %}{% block body %}{{ date.year }}{% endblock %}"
    )
    assert letter(tmp_path, replace(END, tag="ERROR")).text == "2023"


def test_a_changed_file_serves_the_next_mail(tmp_path: Path) -> None:
    file = tmp_path / "job.txt"
    file.write_text("{% block subject %}one{% endblock %}{% block body %}{% endblock %}")
    writer = MailWriter(str(tmp_path), "here")
    assert writer.letter(END, "ann", "i").subject == "one"
    file.write_text("{% block subject %}another{% endblock %}{% block body %}{% endblock %}")
    assert writer.letter(END, "ann", "i").subject == "another"


@pytest.mark.parametrize(
    "broken",
    [
        "{% block subject %}{{ nothing_such }}{% endblock %}{% block body %}{% endblock %}",
        "{% block subject %}no body{% endblock %}",
        "{% block",
        "{% block subject %}{{ 1 / 0 }}{% endblock %}{% block body %}{% endblock %}",
        b"{% block subject %}\xff{% endblock %}",
    ],
)
def test_a_template_that_fails_is_logged_and_ours_serves(tmp_path: Path, broken: str | bytes) -> None:
    (tmp_path / "job.txt").write_bytes(broken.encode() if isinstance(broken, str) else broken)
    with capture_logs() as logged:
        assert letter(tmp_path).subject == SHIPPED
    assert [entry["event"] for entry in logged] == ["mail template failed"]


def test_what_a_user_names_a_job_is_no_template() -> None:
    assert "({{ 7 * 7 }})" in letter("", replace(END, name="{{ 7 * 7 }}")).subject
