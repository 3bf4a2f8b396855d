"""Random questions are answered as a naive reference answers them; the campaign ``decide_random`` tries more."""

from __future__ import annotations

import pytest

from tests.campaigns.decide_random import different
from tests.harness.examples import examples
from tests.prop.questions.random_questions import asks


@pytest.mark.parametrize("ask", asks())
def test_answers_are_those_of_the_reference(ask: str) -> None:
    assert [text for seed in range(examples(150)) if (text := different(ask, seed)) is not None] == []
