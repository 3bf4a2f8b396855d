"""Every case gives what stands there: those of docs/scheduling, and the corner cases here.

``python -m tests.cases.test_cases`` rewrites the pages.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from oarpy.cluster_state.order_plugins import SiteOrders
from oarpy.cluster_state.trace import decisions_json, placement_json, scenario_of
from oarpy.scheduler.decide import decide
from oarpy.simulation.scenarios.reader import read_scenario
from tests.cases.notation import outcome, snapshot_of

HERE = Path(__file__).resolve().parent
PAGES = HERE.parent.parent / "docs" / "scheduling"
_FENCE = re.compile(r"^```case\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_GIVES = "gives\n"


def pages() -> list[Path]:
    """Return every page with cases."""
    return [*sorted(PAGES.glob("*.md")), HERE / "corners.md"]


def cases() -> list[tuple[str, str]]:
    """Return the name of the page and the text of each case."""
    return [
        (f"{page.stem}-{number + 1}", text)
        for page in pages()
        for number, text in enumerate(_FENCE.findall(page.read_text(encoding="utf-8")))
    ]


@pytest.mark.parametrize("text", [pytest.param(text, id=name) for name, text in cases()])
def test_case(text: str) -> None:
    assert outcome(text) == text.partition(_GIVES)[2]


@pytest.mark.parametrize("text", [pytest.param(text, id=name) for name, text in cases() if "\nbag " not in text])
def test_a_case_written_as_a_scenario_is_decided_the_same(text: str) -> None:
    snapshot = snapshot_of(text)
    again = read_scenario(json.dumps(scenario_of(snapshot)), SiteOrders())
    decided, once_more = (decide(one, None, SiteOrders()) for one in (snapshot, again))
    show = snapshot.show_instant
    assert [placement_json(one, show) for one in once_more.plan.placements] == [
        placement_json(one, show) for one in decided.plan.placements
    ]
    assert decisions_json(once_more) == decisions_json(decided)


def test_every_page_has_cases_and_is_listed() -> None:
    index = (PAGES / "index.md").read_text(encoding="utf-8")
    for page in PAGES.glob("*.md"):
        assert page.name == "index.md" or f"]({page.name})" in index
        assert _FENCE.search(page.read_text(encoding="utf-8"))


def _rewritten(text: str) -> str:
    return _FENCE.sub(lambda found: f"```case\n{found[1].partition(_GIVES)[0]}{_GIVES}{outcome(found[1])}```", text)


if __name__ == "__main__":
    for changed in pages():
        changed.write_text(_rewritten(changed.read_text(encoding="utf-8")), encoding="utf-8")
