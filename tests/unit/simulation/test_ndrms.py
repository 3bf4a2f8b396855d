"""What is drawn for the experiments on negotiation, the system that they compare with, and the table of claims."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from oarpy.model.errors import UsageError
from oarpy.negotiation.launchers import Moldable
from research.ndrms.claims import claims
from research.ndrms.experiments import Experiment, Measured, measure, workload
from research.ndrms.figures import FIGURES, JUDGED, READINGS, real_servers, wastes
from research.ndrms.oar_like import OarLikeRun, configurations
from research.ndrms.reproduction import reproduce, status
from research.ndrms.workloads import (
    TICKS,
    DrawnApplication,
    LoggedJob,
    latency,
    platform,
    sequence,
    with_complex,
)

LOG = [LoggedJob(8 * (1 + index % 40), 60 + 7 * index) for index in range(60)]


def test_a_greater_share_keeps_who_was_of_the_kind_before() -> None:
    few, many = (sequence(LOG, 1, p_mo=share, p_cem=0, sizes="processors") for share in (0.2, 0.8))
    moldable = [{index for index, one in enumerate(found) if one.least < one.most} for found in (few, many)]
    assert moldable[0] < moldable[1]
    assert all(many[index] == few[index] for index in moldable[0])
    assert sequence(LOG, 1, p_mo=0.2, p_cem=0, sizes="processors") == few


def test_sizes_are_cut_at_a_cluster() -> None:
    assert [LoggedJob(8672, 10).hosts("processors"), LoggedJob(24, 10).hosts("processors")] == [128, 24]
    assert [LoggedJob(8672, 10).hosts("nodes"), LoggedJob(24, 10).hosts("nodes")] == [128, 3]


def test_a_moldable_application_lasts_as_its_job_on_as_many_hosts() -> None:
    drawn = sequence(LOG, 3, p_mo=1, p_cem=0, sizes="processors")
    for job, one in zip(LOG, drawn, strict=True):
        (cluster,) = platform(1)
        assert 0 <= one.time.on(cluster, job.hosts("processors")) - job.run * 1000 <= 1


def test_the_complex_application_comes_at_its_place() -> None:
    plain = sequence(LOG, 1, p_mo=0.2, p_cem=0, sizes="processors")
    found = with_complex(plain, LOG, 40, 1, "processors")
    assert found[39].work is not None
    assert [*found[:39], *found[40:]] == plain


def test_two_clusters_are_a_city_and_two_cities_a_country() -> None:
    assert [latency(0, other) for other in range(1, 6)] == [5, 10, 10, 50, 50]


def test_the_oar_like_system_takes_the_earliest_end() -> None:
    slow = DrawnApplication(1, 128, 1.0, 128_000.0, 1.5)
    assert len(configurations(slow, platform(2))) == 256
    done = OarLikeRun(platform(2), [slow, slow, slow], 0, 1000).run()
    # the second cluster is faster, and the first one free before it; the pass after 910 is a timer after the first
    assert done.ends == {0: 910, 1: 1000, 2: 1910}
    assert done.configurations == 3 * 256


def test_without_moldable_jobs_both_systems_use_a_configuration_a_job() -> None:
    ours = Experiment("ours", "W0", "processors", "first-request", p_mo=0.0)
    oar = replace(ours, system="oar", rank=None)
    assert [measure(one, LOG).unique_configurations for one in (ours, oar)] == [60, 60]


def test_waste_grows_with_fair_start() -> None:
    found = [
        measure(Experiment("ours", "W2", "nodes", "first-request", clusters=2, p_cem=1.0, fair_start=seconds), LOG[:12])
        for seconds in (0, 5, 10)
    ]
    wastes_found = [one.waste for one in found]
    assert wastes_found[0] == 0
    assert wastes_found == sorted(wastes_found, key=lambda waste: waste or 0)


def test_a_claim_that_fails_decides_under_the_judged_reading_only() -> None:
    for share, expected in ((1e5, 0), (1.2e5, 1)):
        results = {
            one: Measured(1, 1, 1, 1, 0.1, waste=one.fair_start * (one.p_cem + 1) * share / 2)
            for reading in READINGS
            for one in wastes(reading, False)
        }
        found = [claim for reading in READINGS for claim in claims(11, reading, results)]
        assert status(found) == expected
        assert {claim.holds for claim in found if claim.letter in "ab"} == {"yes"}
        assert status([claim for claim in found if not claim.reading.judged]) == 0


def test_claims_without_their_runs_are_open() -> None:
    for figure in FIGURES:
        found = claims(figure, JUDGED, {})
        assert {claim.holds for claim in found} == {"-"}
        assert all(claim.ours.startswith("not run") for claim in found)
        assert status(found) == 0
        assert status(found, real=True) == (1 if figure == 12 else 0), "a real server was asked for, and was of no use"


def test_a_real_server_is_compared_with_the_simulation() -> None:
    (one,) = real_servers(JUDGED, False)
    for size, seconds, expected in ((1500, 3.3, ["yes", "yes"]), (1501, 3.4, ["no", "no"])):
        measured = Measured(1, 1000, 1, 1, 1.0, real_bytes=size, real_seconds=seconds)
        assert [claim.holds for claim in claims(12, JUDGED, {one: measured})] == expected


def test_great_jobs_are_left_out_where_a_real_server_runs() -> None:
    (one,) = real_servers(JUDGED, False)
    log = [LoggedJob(8, 900), LoggedJob(8, 901)] * 300
    found = workload(one, log).participants
    assert len(found) == 200
    assert {
        round(each.launcher.time.on(platform(1)[0], 8)) for each in found if isinstance(each.launcher, Moldable)
    } == {900 * TICKS}


def test_what_is_missing_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"LLNL-Atlas-2006-2\.1-cln"):
        reproduce(tmp_path, [7], output=tmp_path / "out")
    with pytest.raises(UsageError, match="no figure 6"):
        reproduce(tmp_path, [6], output=tmp_path / "out")
    assert not (tmp_path / "out").exists()
