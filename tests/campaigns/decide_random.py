"""Random questions of ``oarpy decide``, and scenarios of ``oarpy grid simulate``, against naive answers.

``python -m tests.campaigns.decide_random --count 2000 --scenarios 500`` prints for each kind of question how many
answers were equal, for each system how many scenarios came out as in its naive world. Scenarios of ``windows`` and
``flexco`` are also gone through event by event: see ``kept_promises``. Ends with status 1 if anything was otherwise,
after the first such questions and scenarios.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Sequence

from oarpy.questions.table import answer
from tests.prop.grid import naive_worlds
from tests.prop.grid.kept_promises import broken_promises, states_that_differ
from tests.prop.grid.naive_worlds import NAIVE_WORLDS
from tests.prop.grid.random_systems import random_scenario
from tests.prop.questions import naive_answers
from tests.prop.questions.comparison import equal
from tests.prop.questions.random_questions import asks, random_question

PROMISING = ("windows", "flexco")
_SHOWN = 3


def different(ask: str, seed: int) -> str | None:
    """Return a question with both answers, if they differ."""
    question = random_question(ask, seed)
    text = json.dumps(question)
    found, expected = answer(text), naive_answers.answer(question)
    return None if equal(found, expected) else f"{text}\n  {json.dumps(found)}\n  {json.dumps(expected)}"


def questions(ask: str, seeds: Sequence[int]) -> list[str]:
    """Compare answers of a kind, and print a line about them; return the questions that are answered otherwise."""
    wrong = [text for seed in seeds if (text := different(ask, seed)) is not None]
    print(f"{ask}: {len(seeds) - len(wrong)} of {len(seeds)} equal", flush=True)
    return wrong


def scenarios(system: str, seeds: Sequence[int]) -> list[str]:
    """Compare scenarios of a system, and print a line about them; return what is otherwise."""
    wrong = [text for seed in seeds if (text := naive_worlds.different(system, seed)) is not None]
    line = f"{system}: {len(seeds) - len(wrong)} of {len(seeds)} scenarios equal"
    if system in PROMISING:
        broken, elsewhere, met = [], [], Counter[str]()
        for seed in seeds:
            file = random_scenario(system, seed)
            sentences, there = broken_promises(file)
            met += there
            broken += [f"{json.dumps(file)}\n  {sentence}" for sentence in sentences[:1]]
            elsewhere += [f"{json.dumps(file)}\n  {sentence}" for sentence in states_that_differ(file)[:1]]
        kept, same = len(seeds) - len(broken), len(seeds) - len(elsewhere)
        counts = ", ".join(f"{number} {what}" for what, number in met.items())
        line += f", {kept} keep all promises, {same} the same step by step ({counts})"
        wrong += [*broken, *elsewhere]
    print(line, flush=True)
    return wrong


def main() -> None:
    """Compare so many answers of each kind, and scenarios of each system."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=2000, help="questions of each kind (2000)")
    parser.add_argument("--scenarios", type=int, default=500, help="scenarios of each system (500)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--ask", choices=asks(), help="questions of one kind alone, and no scenarios")
    parser.add_argument("--system", choices=list(NAIVE_WORLDS), help="scenarios of one system alone, and no questions")
    options = parser.parse_args()
    wrong = []
    for ask in [options.ask] if options.ask else [] if options.system else asks():
        wrong += questions(ask, range(options.seed, options.seed + options.count))
    for system in [options.system] if options.system else [] if options.ask else NAIVE_WORLDS:
        wrong += scenarios(system, range(options.seed, options.seed + options.scenarios))
    print("\n".join(wrong[:_SHOWN]))
    raise SystemExit(bool(wrong))


if __name__ == "__main__":
    main()
