"""Runs of applications that negotiate are those of a naive reference, and keep what every run must keep."""

from __future__ import annotations

import json
from random import Random

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.campaigns.negotiation_random import difference, main, printed
from tests.harness.examples import examples
from tests.prop.negotiation.negotiation_files import random_file
from tests.prop.negotiation.negotiation_properties import (
    no_host_is_given_twice,
    requests_move_nobody_ahead,
    views_and_answers_come_to_rest,
)

RANDOMS = st.randoms(use_true_random=False)


@settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(RANDOMS)
def test_every_line_is_that_of_the_naive_reference(random: Random) -> None:
    assert difference(json.dumps(random_file(random))) is None


@settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(RANDOMS)
def test_no_host_is_given_twice(random: Random) -> None:
    file = random_file(random, 12)
    no_host_is_given_twice(file, printed(json.dumps(file)))


@settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(RANDOMS)
def test_without_delays_views_come_to_rest_and_requests_move_nobody_ahead(random: Random) -> None:
    file = random_file(random, 12) | {"timer": 0, "most": 200}
    for entry in file["applications"]:
        entry.pop("delay", None)
    lines = printed(json.dumps(file))
    views_and_answers_come_to_rest(file, lines)
    requests_move_nobody_ahead(file, lines)


def test_the_campaign_counts_what_happened() -> None:
    assert main(["--count", "20"]) == 0
