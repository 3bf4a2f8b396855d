"""Random files of ``oarpy negotiate``, small ones with many coincidences, from a seeded source of numbers."""

from __future__ import annotations

import json
from fractions import Fraction
from random import Random
from typing import Any

from oarpy.negotiation.simulation.journal import in_seconds
from tests.prop.negotiation.naive_negotiation import Naive

Json = dict[str, Any]


def random_file(random: Random, most_applications: int = 7) -> Json:
    """Return a file."""
    clusters = {cid: _cluster(random) for cid in ("a", "b", "c")[: random.choice((1, 1, 2, 3))]}
    ids = random.sample(range(1, 30), random.randint(1, most_applications))
    file: Json = {"clusters": clusters, "applications": [_application(random, one, clusters) for one in ids]}
    optional = {
        "fair_start": random.choice((0, 1, 2, 3.5, 5, 20)),
        "timer": random.choice((0, 0, 0.5, 1, 2)),
        "security": random.choice((0, 0, 1, 0.25)),
        "ghosts": random.choice(("needed", "always")),
        "rank": random.choice(("first-request", "submission")),
        "most": random.choice((1, 2, 3, 200)),
        "latency": _latencies(random, list(clusters)),
    }
    for key in random.sample(sorted(optional), random.randint(0, len(optional))):
        file[key] = optional[key]
    return file


def _cluster(random: Random) -> Json:
    cluster: Json = {"hosts": random.randint(1, 6)}
    if random.random() < 0.5:
        cluster["speed"] = random.choice((1, 2, 0.5, 1.1, 3))
    return cluster


def _latencies(random: Random, clusters: list[str]) -> list[list[Any]]:
    pairs = [(a, b) for place, a in enumerate(clusters) for b in clusters[:place]]
    return [[a, b, random.choice((0, 0.005, 0.5, 2))] for a, b in pairs if random.random() < 0.7]


def _time(random: Random, largest: int) -> int | float:
    return random.choice((random.randint(0, largest), random.randint(0, 4 * largest) / 4, random.randint(0, 10) / 10))


def _application(random: Random, number: int, clusters: Json) -> Json:
    own = random.sample(sorted(clusters), random.randint(1, len(clusters)))
    entry: Json = {"id": number, "arrives": _time(random, 20)}
    if len(own) < len(clusters) or random.random() < 0.3:
        entry["clusters"] = own
    kind = random.choice(("script", "rigid", "moldable", "moldable", "complex"))
    largest = max(clusters[cid]["hosts"] for cid in own)
    if kind == "script":
        afters = sorted(_time(random, 12) for _ in range(random.choice((0, 1, 1, 2, 3))))
        entry["script"] = [[after, _hosts(random, own, clusters), _time(random, 12) + 0.5] for after in afters]
    else:
        entry[kind] = _asked(random, kind, largest)
        if random.random() < 0.6:
            entry["delay"] = random.choice((0, 0.5, 1, 2, 4, 7))
        if random.random() < 0.4:
            entry[kind]["margin"] = random.choice((1, 1.5, 1.1, 2))
    if random.random() < 0.4:
        entry["lasts"] = _time(random, 10)
    return entry


def _hosts(random: Random, own: list[str], clusters: Json) -> dict[str, int]:
    chosen = random.sample(own, random.randint(1, len(own)))
    return {cid: random.randint(1, clusters[cid]["hosts"]) for cid in chosen}


def _asked(random: Random, kind: str, largest: int) -> Json:
    if kind == "rigid":
        return {"hosts": random.randint(1, largest), "duration": _time(random, 12) + 0.5}
    if kind == "complex":
        return {"work": random.randint(1, 60), "iterations": random.randint(0, 5)}
    least = random.randint(1, largest)
    part = random.choice((0, 0.5, 0.8, 0.99, 1))
    return {"P": part, "min": least, "max": random.randint(least, 8), "single": random.randint(1, 60)}


def naive_lines(text: str) -> list[Json]:
    """Return what the naive reference makes of a file, in the form of lines that were printed."""

    def plain(value: Any) -> Any:
        if isinstance(value, Fraction):
            return in_seconds(value)
        if isinstance(value, dict):
            return {key: plain(one) for key, one in value.items()}
        return [plain(one) for one in value] if isinstance(value, list) else value

    return [plain(line) for line in Naive(json.loads(text, parse_float=Fraction)).run()]
