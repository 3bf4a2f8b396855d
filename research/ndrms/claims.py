"""The claims of the source about each figure, the values found here, and whether the claims hold."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from statistics import correlation, linear_regression, mean
from typing import Literal

from research.ndrms.experiments import Experiment, Measured, Results
from research.ndrms.figures import FIGURES, SourceReading, oar_like

Holds = Literal["yes", "no", "-"]
MEGABYTE = 1_000_000
LEFT_OUT = "left out by --quick"


@dataclass(frozen=True, slots=True)
class PublishedClaim:
    """A line of the table. ``paper`` and ``ours`` are the published and the found value, with units."""

    figure: int
    letter: str
    reading: SourceReading
    paper: str
    ours: str
    holds: Holds

    def cells(self) -> dict[str, object]:
        """Return the columns of the line."""
        judged = "yes" if self.reading.judged else "no"
        return {
            "figure": self.figure,
            "claim": self.letter,
            "rank": self.reading.rank,
            "sizes": self.reading.sizes,
            "judged": judged,
            "paper": self.paper,
            "ours": self.ours,
            "holds": self.holds,
        }


Finding = tuple[str, str, str, bool | None]
"""Letter, published value, found value, and whether it holds; None where it was not run."""


class _Runs:
    """The runs of one figure under one reading, found by what is different about them."""

    def __init__(self, figure: int, reading: SourceReading, results: Results) -> None:
        full = list(FIGURES[figure](reading, False))
        self.complete = all(experiment in results for experiment in full)
        self.results = {experiment: results[experiment] for experiment in full if experiment in results}

    def of(self, system: str = "ours", **wanted: object) -> dict[Experiment, Measured]:
        """Return the runs in a system that have all the wanted values."""
        return {
            experiment: measured
            for experiment, measured in self.results.items()
            if experiment.system == system and all(getattr(experiment, name) == value for name, value in wanted.items())
        }

    def pairs(self) -> list[tuple[Experiment, Measured, Measured]]:
        """Return each of our runs beside that of the same workload in the OAR-like system."""
        results = self.results
        return [
            (experiment, mine, results[oar_like(experiment)])
            for experiment, mine in self.of().items()
            if oar_like(experiment) in results
        ]


def claims(figure: int, reading: SourceReading, results: Results) -> list[PublishedClaim]:
    """Return the claims of a figure under a reading; those that need runs which are not there are open."""
    findings = _FINDINGS[figure](_Runs(figure, reading, results))
    answers: Mapping[bool | None, Holds] = {True: "yes", False: "no", None: "-"}
    return [
        PublishedClaim(figure, letter, reading, paper, f"not run: {ours}" if holds is None else ours, answers[holds])
        for letter, paper, ours, holds in findings
    ]


def _figure_7(runs: _Runs) -> Iterator[Finding]:
    pairs = runs.pairs()
    at = {experiment.p_mo: (mine, theirs) for experiment, mine, theirs in pairs}
    if 0.0 in at:
        mine, theirs = at[0.0]
        counts = (mine.unique_configurations, theirs.unique_configurations)
        yield "a", "200 configurations at p_mo 0 in both", f"{counts[0]} and {counts[1]}", counts == (200, 200)
    else:
        yield "a", "200 configurations at p_mo 0 in both", LEFT_OUT, None
    if 1.0 in at:
        count = at[1.0][1].unique_configurations
        yield "b", "OAR-like 19,200 +-5 % at p_mo 1", f"{count:,}", abs(count - 19_200) <= 0.05 * 19_200
    else:
        yield "b", "OAR-like 19,200 +-5 % at p_mo 1", LEFT_OUT, None
    moldable = [(experiment, mine, theirs) for experiment, mine, theirs in pairs if experiment.p_mo > 0]
    gaps = [theirs.unique_configurations - mine.unique_configurations for _, mine, theirs in moldable]
    growing = gaps[:1] > [0] and all(less < more for less, more in pairwise(gaps))
    fewer = f"fewer by {', '.join(f'{gap:,}' for gap in gaps)}"
    yield "c", "ours fewer configurations, the gap growing", *_whole(runs, fewer, growing)
    for letter, paper, names, sign in (
        (
            "d",
            "ours lower in all operations, of the scheduler, seconds",
            ("operations", "rms_operations", "seconds"),
            1,
        ),
        ("e", "ours higher in operations of applications, bytes", ("application_operations", "bytes"), -1),
    ):
        holds = all(
            sign * (getattr(theirs, name) - getattr(mine, name)) > 0 for _, mine, theirs in moldable for name in names
        )
        last = moldable[-1] if moldable else None
        compared = "" if last is None else "; ".join(_compared(name, last[1], last[2]) for name in names)
        yield letter, paper, *_whole(runs, f"at p_mo {last[0].p_mo if last else 0:g}: {compared}", holds)
    yield "f", "<= 25 MB, <= 100 s", *_whole(runs, *_at_most(runs.of().values(), 25, 100))


def _figure_8(runs: _Runs) -> Iterator[Finding]:
    pairs = {experiment.clusters: (mine, theirs) for experiment, mine, theirs in runs.pairs()}
    on_one_cluster = pairs[1][1].unique_configurations if 1 in pairs else 0
    counts = {number: theirs.unique_configurations for number, (_, theirs) in pairs.items()}
    linear = all(count == number * on_one_cluster for number, count in counts.items())
    totals = f"{on_one_cluster:,} on one, {counts.get(8, 0):,} on 8"
    yield "a", "OAR-like: clusters x those on one (about 4,000)", *_whole(runs, totals, linear)
    slopes = (
        [
            linear_regression(list(pairs), [pair[index].unique_configurations for pair in pairs.values()]).slope
            for index in (0, 1)
        ]
        if len(pairs) > 1
        else [0.0, 0.0]
    )
    growth = f"{slopes[0]:,.0f} a cluster, OAR-like {slopes[1]:,.0f}"
    yield "b", "ours grow less with each cluster", *_whole(runs, growth, slopes[0] < slopes[1])
    paper = "operations and bytes: 7 to 8 clusters adds less than half of what 1 to 2 adds"
    if {1, 2, 7, 8} <= pairs.keys():
        ours = {number: mine for number, (mine, _) in pairs.items()}
        steps = {
            name: [getattr(ours[more], name) - getattr(ours[more - 1], name) for more in (2, 8)]
            for name in ("operations", "bytes")
        }
        increments = "; ".join(f"{name} {first:+,} and then {last:+,}" for name, (first, last) in steps.items())
        yield "c", paper, increments, all(last < first / 2 for first, last in steps.values())
    else:
        yield "c", paper, LEFT_OUT, None
    yield "d", "<= 40 MB, <= 150 s", *_whole(runs, *_at_most(runs.of().values(), 40, 150))
    factors = [mine.seconds / theirs.seconds for mine, theirs in pairs.values()]
    range_ = f"{min(factors, default=0):.2f} to {max(factors, default=0):.2f} times"
    yield (
        "e",
        "seconds within a factor of 2 of OAR-like",
        *_whole(runs, range_, all(0.5 <= factor <= 2 for factor in factors)),
    )


def _figure_9(runs: _Runs) -> Iterator[Finding]:
    at_8 = runs.of(clusters=8)
    shares = {experiment.p_cem: measured for experiment, measured in at_8.items() if experiment.workload == "W2"}
    plain = next((measured for experiment, measured in at_8.items() if experiment.workload == "W0"), None)
    single = next((measured for experiment, measured in at_8.items() if experiment.workload == "W1"), None)
    most = max((measured.unique_configurations for measured in at_8.values()), default=0)
    largest = f"{most:,} (129^3 = {129**3:,}; 129^8 of 8 bytes each = {129**8 * 8 // 10**12:,} TB)"
    yield "a", "<= 12,000 configurations at 8 clusters", *_whole(runs, largest, most <= 12_000)
    counts = {share: measured.unique_configurations for share, measured in shares.items()}
    peak = max(counts, key=lambda share: counts[share], default=0.0)
    by_share = ", ".join(f"{count:,} at {share:g}" for share, count in counts.items())
    holds = peak == 0.8 and counts.get(1.0, 0) <= counts[0.8] / 2
    yield "b", "most at p_CEM .8, at most half of that at 1", *_whole(runs, by_share, holds)
    paper = "operations 0 to 20 % up from W0 to W1, at p_CEM 1 below W1"
    if plain and single and 1.0 in shares:
        names = ("rms_operations", "application_operations", "operations")
        ups = [getattr(single, name) / getattr(plain, name) - 1 for name in names]
        last = [getattr(shares[1.0], name) / getattr(single, name) for name in names]
        changes = f"{_percents(ups)} (scheduler, applications, all); at 1 {_percents(last)} of W1"
        yield "c", paper, changes, all(0 <= up <= 0.2 for up in ups) and all(part < 1 for part in last)
    else:
        yield "c", paper, LEFT_OUT, None
    yield "d", "<= 45 MB, <= 150 s", *_whole(runs, *_at_most(runs.of().values(), 45, 150))


def end_delays(runs: Results) -> dict[Experiment, float]:
    """Return by how many seconds the complex application of W1 ends later than without adaptation delay."""
    ends = {
        experiment: measured.complex_end for experiment, measured in runs.items() if measured.complex_end is not None
    }
    return {
        experiment: end - ends[replace(experiment, delay=0)]
        for experiment, end in ends.items()
        if experiment.delay > 0 and replace(experiment, delay=0) in ends
    }


def _figure_10(runs: _Runs) -> Iterator[Finding]:
    delays = end_delays(runs.of())
    short = [later for experiment, later in delays.items() if experiment.fair_start < experiment.delay]
    long = [later for experiment, later in delays.items() if experiment.fair_start >= experiment.delay]
    for letter, name, of in (("a", "mean", mean), ("b", "maximum", max)):
        paper = f"{name} end delay with fair-start < delay above 0 and at least twice that of the others"
        if not short or not long:
            yield letter, paper, LEFT_OUT, None
            continue
        values = (float(of(short)), float(of(long)))
        delays_text = f"{values[0]:.1f} s and {values[1]:.1f} s"
        yield letter, paper, *_whole(runs, delays_text, values[0] > 0 and values[0] >= 2 * values[1])


def _figure_11(runs: _Runs) -> Iterator[Finding]:
    wastes: dict[float, list[tuple[int, float]]] = {}
    for experiment, measured in runs.of().items():
        wastes.setdefault(experiment.p_cem, []).append((experiment.fair_start, measured.waste or 0.0))
    fits = {share: _determination(points) for share, points in wastes.items()}
    fits_text = ", ".join(f"{fit:.4f} at p_CEM {share:g}" for share, fit in fits.items())
    yield (
        "a",
        "waste linear in fair-start: R2 >= .98",
        *_whole(runs, fits_text, all(fit >= 0.98 for fit in fits.values())),
    )
    at_30 = {share: dict(points)[30] for share, points in wastes.items() if 30 in dict(points)}
    wastes_text = ", ".join(f"{waste / 1e6:.2f} M at p_CEM {share:g}" for share, waste in at_30.items())
    rising = all(less < more for less, more in pairwise(at_30.values()))
    yield "b", "waste rises with p_CEM at 30 s", *_whole(runs, wastes_text, rising)
    paper = "3 M host-seconds +-10 % at 30 s, p_CEM 1"
    if 1.0 in at_30:
        yield "c", paper, f"{at_30[1.0] / 1e6:.2f} M host-seconds", abs(at_30[1.0] - 3e6) <= 0.3e6
    else:
        yield "c", paper, LEFT_OUT, None


def _figure_12(runs: _Runs) -> Iterator[Finding]:
    measured = next((run for run in runs.of().values() if run.real_bytes is not None), None)
    for letter, paper, most in (
        ("a", "bytes of all lines, real / simulated <= 1.5", 1.5),
        ("b", "processor time of server and launchers, real / simulated <= 3.3", 3.3),
    ):
        if measured is None:
            yield letter, paper, "no real server ran; one is tried under the judged reading, without --quick", None
            continue
        assert measured.real_bytes is not None
        assert measured.real_seconds is not None
        pair = (measured.real_bytes / MEGABYTE, measured.bytes / MEGABYTE)
        sizes, ratio = f"{pair[0]:.2f} MB and {pair[1]:.2f} MB", pair[0] / pair[1]
        if letter == "b":
            sizes, ratio = (
                f"{measured.real_seconds:.1f} s and {measured.seconds:.1f} s",
                measured.real_seconds / measured.seconds,
            )
        yield letter, paper, f"{sizes}: {ratio:.1f} times", ratio <= most


_FINDINGS: Mapping[int, Callable[[_Runs], Iterable[Finding]]] = {
    7: _figure_7,
    8: _figure_8,
    9: _figure_9,
    10: _figure_10,
    11: _figure_11,
    12: _figure_12,
}


def _whole(runs: _Runs, finding: str, holds: bool) -> tuple[str, bool | None]:
    """Return what was found, open where some of the figure's runs were left out."""
    return (finding, holds) if runs.complete else (LEFT_OUT, None)


def _at_most(runs: Iterable[Measured], megabytes: float, seconds: float) -> tuple[str, bool]:
    measured = list(runs)
    size = max((run.bytes for run in measured), default=0) / MEGABYTE
    time = max((run.seconds for run in measured), default=0.0)
    return f"{size:.1f} MB, {time:.1f} s", size <= megabytes and time <= seconds


def _compared(name: str, mine: Measured, theirs: Measured) -> str:
    values = (getattr(mine, name), getattr(theirs, name))
    form = ",.1f" if name == "seconds" else ",d"
    return f"{name.replace('_', ' ')} {values[0]:{form}}, OAR-like {values[1]:{form}}"


def _percents(parts: Sequence[float]) -> str:
    return ", ".join(f"{100 * part:.0f} %" for part in parts)


def _determination(points: Sequence[tuple[int, float]]) -> float:
    """Return R2 of the straight line through points; 1 where all values are equal."""
    values = [value for _, value in points]
    if len(set(values)) < 2:
        return 1.0
    return float(correlation([at for at, _ in points], values) ** 2)
