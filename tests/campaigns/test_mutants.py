"""Each line of the table of mutants can still be put back."""

from __future__ import annotations

import ast

import pytest

from tests.campaigns.mutants import MUTANTS, ROOT, Mutant


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda one: one.what)
def test_the_line_can_be_put_back(mutant: Mutant) -> None:
    changed = mutant.apply((ROOT / mutant.path).read_text(encoding="utf-8"))
    ast.parse(changed)


def test_a_line_that_is_not_there_is_told() -> None:
    with pytest.raises(ValueError, match="0 times, not once: walrus"):
        Mutant("", "", "a.py", "walrus", "").apply("nothing of the kind")
