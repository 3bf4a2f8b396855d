"""The table of OAR's options says what is so: an option that works is one that the command takes, and was tried."""

from __future__ import annotations

import shlex

import pytest
from oarpy.commands.completion import tree
from typer.core import TyperOption

from tests.harness.option_table import OptionRow, option_rows


def spellings(command: str) -> dict[str, frozenset[str]]:
    """Return the words for the same as each option that a command takes, with those of its help."""
    (_, parsed), *_ = tree(command)
    found: dict[str, frozenset[str]] = {}
    for one in parsed.params:
        words = frozenset((*one.opts, *one.secondary_opts)) if isinstance(one, TyperOption) else frozenset()
        found |= dict.fromkeys(words, words)
    help_words = frozenset({"-h", "--help"} - found.keys())
    return found | dict.fromkeys(help_words, help_words)


def test_each_row_is_decided_and_what_does_not_work_has_its_reason() -> None:
    table = option_rows()
    assert len(table) > 60
    for row in table:
        assert row.verdict in ("works", "otherwise", "left out"), row
        assert bool(row.tried) is (row.verdict == "works"), row
        assert row.verdict == "works" or row.note, row


@pytest.mark.parametrize("row", [row for row in option_rows() if row.verdict == "works"], ids=str)
def test_what_works_is_taken_and_tried(row: OptionRow) -> None:
    lines = [shlex.split(line) for line in row.tried]
    for command, option in row.options:
        tried = {word for line in lines if line[0] == command for word in line}
        assert tried, (command, option)
        if option:
            assert not tried.isdisjoint(spellings(command)[option]), (command, option)
