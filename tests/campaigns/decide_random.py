"""Random questions of ``oarpy decide`` against naive answers: ``python -m tests.campaigns.decide_random --count 2000``.

Prints for each kind how many answers were equal. Ends with status 1 if one was not, after the first such questions.
"""

from __future__ import annotations

import argparse
import json
from typing import Any

from oarpy.questions.table import answer
from tests.prop.questions import naive_answers
from tests.prop.questions.random_questions import asks, random_question

_EQUAL = 0.000001
_SHOWN = 3


def equal(one: Any, other: Any) -> bool:
    """Tell whether two answers are the same, with their keys in one order, but for tiny differences of numbers."""
    if isinstance(one, dict) and isinstance(other, dict):
        return list(one) == list(other) and all(equal(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(equal(a, b) for a, b in zip(one, other, strict=True))
    if isinstance(one, bool) or one is None or isinstance(one, str):
        return bool(one == other)
    return not isinstance(other, bool | str | dict | list | None) and bool(abs(one - other) <= _EQUAL)


def different(ask: str, seed: int) -> str | None:
    """Return a question with both answers, if they differ."""
    question = random_question(ask, seed)
    text = json.dumps(question)
    found, expected = answer(text), naive_answers.answer(question)
    return None if equal(found, expected) else f"{text}\n  {json.dumps(found)}\n  {json.dumps(expected)}"


def main() -> None:
    """Compare so many answers of each kind."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--ask", choices=asks())
    options = parser.parse_args()
    failed = False
    for ask in [options.ask] if options.ask else asks():
        seeds = range(options.seed, options.seed + options.count)
        wrong = [text for seed in seeds if (text := different(ask, seed)) is not None]
        failed = failed or bool(wrong)
        print("\n".join([*wrong[:_SHOWN], f"{ask}: {options.count - len(wrong)} of {options.count} equal"]))
    raise SystemExit(failed)


if __name__ == "__main__":
    main()
