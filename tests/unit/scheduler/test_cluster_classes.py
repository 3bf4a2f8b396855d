"""Clusters as applications see them: classes of equal hosts, levels, and what launchers are told of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from oarpy.negotiation.core.clusters import clusters_of, counted_at
from oarpy.negotiation.passes.cluster_facts import ClusterFacts, renewed
from oarpy.scheduler.resources.consumables import Consumable
from oarpy.scheduler.resources.platform import Platform, Resource


def platform(*sizes: int, state: str = "Alive") -> Platform:
    """Return hosts h0, h1, ... of cpus of two cores each, below one switch."""
    rows: list[Resource] = []
    for host, cores in enumerate(sizes):
        for core in range(cores):
            number = len(rows) + 1
            named = {"network_address": f"h{host}", "cpu": 10 * host + core // 2, "core": number, "switch": "s"}
            rows.append(Resource(number, state=state if host == 0 else "Alive", properties=named))
    return Platform.build(rows, hierarchy=("cpu", "core", "switch"))


def memory(*amounts: int) -> Consumable:
    return Consumable("memory", "network_address", {f"h{host}": amount for host, amount in enumerate(amounts)})


def test_hosts_of_different_consumables_are_different_classes() -> None:
    found = clusters_of(platform(2, 2, 2), consumables=[memory(8, 16, 8)])
    assert [(one.name, one.hosts, one.consumables) for one in found] == [
        ("all#1", ("h0", "h2"), {"memory": 8}),
        ("all#2", ("h1",), {"memory": 16}),
    ]


def of_hosts(*hosts: Sequence[Mapping[str, object]]) -> Platform:
    """Return hosts h0, h1, ... of resources with these properties."""
    rows = [
        Resource(10 * host + place, properties={"network_address": f"h{host}", **properties})
        for host, resources in enumerate(hosts)
        for place, properties in enumerate(resources, 1)
    ]
    return Platform.build(rows)


def test_what_names_a_host_or_a_part_of_it_makes_no_class_and_its_parts_are_counted() -> None:
    hosts = [
        [{"mac": f"02:0{host}", "numa": 2 * host + part, "core": 2 * host + part} for part in (1, 2)]
        for host in range(3)
    ]
    (one,) = clusters_of(of_hosts(*hosts))
    assert one.hosts == ("h0", "h1", "h2")
    assert one.resources == {"network_address": 1, "core": 2, "numa": 2}
    assert one.properties == {}


def test_hosts_that_differ_in_what_they_are_stay_classes_though_each_is_alone() -> None:
    for name, values in (("mem", (16, 32, 64)), ("vendor", ("amd", "arm", "intel")), ("model", ("x1", "x2"))):
        found = clusters_of(of_hosts(*([{name: value}] for value in values)))
        assert [one.properties[name] for one in found] == list(values)


def test_hosts_that_sleep_are_of_the_class_of_those_that_are_awake() -> None:
    (one,) = clusters_of(of_hosts([{"(asleep)": True}], [{"(asleep)": False}]))
    assert (one.name, one.properties) == ("all", {})


@pytest.mark.parametrize(
    ("level", "size", "resources"),
    [
        ("host", 2, {"network_address": 1, "cpu": 2, "core": 4}),
        ("cpu", 4, {"network_address": 1, "cpu": 1, "core": 2}),
        ("core", 8, {"network_address": 1, "cpu": 1, "core": 1}),
        ("switch", 1, {"network_address": 2, "cpu": 4, "core": 8}),
    ],
)
def test_blocks_of_a_level_are_counted_in_place_of_hosts(level: str, size: int, resources: dict[str, int]) -> None:
    ours = platform(4, 4)
    (one,) = counted_at(ours, clusters_of(ours), level)
    (facts,) = ClusterFacts([one], [], 3).message(None)["clusters"].values()  # type: ignore[attr-defined]
    assert (one.size, facts["hosts"], facts["resources"], facts["security_time"]) == (size, size, resources, 3)


def test_what_is_no_level_is_refused() -> None:
    with pytest.raises(ValueError, match="'atom' is no level"):
        counted_at(platform(1), clusters_of(platform(1)), "atom")


def test_a_share_is_rounded_down_and_at_least_one() -> None:
    shares = {share: clusters_of(platform(*[1] * 10), share=share)[0].most for share in (1.0, 0.7, 0.29, 0.01)}
    assert shares == {1.0: 10, 0.7: 7, 0.29: 2, 0.01: 1}


def test_a_cluster_is_named_again_when_its_hosts_or_its_links_change() -> None:
    link = ("all", "elsewhere", 0.1, 1e9)
    before = ClusterFacts(clusters_of(platform(1, 1)), [], 0).marks()
    first = renewed({}, before, ["all"], 0)
    assert first is not None
    assert renewed(first, before, ["all"], 5) is None
    fewer = ClusterFacts(clusters_of(platform(1, 1, state="Absent")), [], 0).marks()
    told = renewed(first, fewer, ["all"], 5)
    assert told is not None
    assert told["all"][:2] == (5, 0)
    linked = renewed(told, ClusterFacts(clusters_of(platform(1, 1, state="Absent")), [link], 0).marks(), ["all"], 6)
    assert linked is not None
    assert linked["all"][:2] == (5, 6)
    gone = renewed(linked, {}, [], 7)
    assert gone is not None
    assert gone["all"][:2] == (7, 7)
    assert renewed(gone, {}, [], 8) is None
