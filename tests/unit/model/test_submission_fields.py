"""What the fields of a submission say of themselves fits together."""

from __future__ import annotations

from collections import Counter

from oarpy.model.submission import COLUMNS, COPIED_COLUMNS, FIELDS, OPTIONS, Submission
from oarpy.store.schema.jobs import jobs


def test_every_column_is_one_of_jobs_and_holds_one_field() -> None:
    assert set(COLUMNS) <= set(jobs.columns.keys())
    assert len(set(COLUMNS)) == len(COLUMNS)
    assert Submission("ann").columns().keys() == set(COLUMNS)


def test_a_copy_has_what_was_asked_for_but_the_date_of_a_reservation() -> None:
    assert {*COLUMNS, "command"} - {*COPIED_COLUMNS} == {"reservation_start"}


def test_every_word_stands_for_one_option() -> None:
    words = Counter(word for option in OPTIONS.values() for word in (*option.words, *(option.script_words or ())))
    assert [word for word, times in words.items() if times > 1] == []
    assert all(option.help for option in OPTIONS.values())


def test_a_flag_is_a_boolean_and_takes_its_default_from_the_field() -> None:
    flags = {name for name, option in OPTIONS.items() if not option.metavar}
    assert {name for name in FIELDS if isinstance(getattr(Submission("ann"), name), bool)} == flags
