"""Why something changed: for each kind of event of each system, the rule, and the section that has it whole."""

from __future__ import annotations

from collections.abc import Mapping

from oarpy.simulation.stepping.stepped_run import Rule

_SYSTEMS = "guides/grid.md#other-systems-system-windows-flexco-offers-bags"
_FREED = Rule("What it held is free as foreseen, so no plan changes.", _SYSTEMS)
_BEGUN = Rule("Its planned start has come.", _SYSTEMS)

RULES: Mapping[tuple[str, str], Rule] = {
    ("windows", "arrival"): Rule(
        "Jobs before it in the queue keep their starts; it and those behind it get the earliest starts inside their "
        "windows. Who gets none is refused.",
        "guides/decide.md#admit",
    ),
    ("windows", "early end"): Rule(
        "Who waits on the cluster is placed anew in the order of the queue, if everybody finds a place in his window.",
        "guides/decide.md#admit",
    ),
    ("flexco", "arrival"): Rule(
        "It gets the earliest place beside all that is held; one cluster with room for all comes before several.",
        "guides/decide.md#coallocate-and-compress",
    ),
    ("flexco", "early end"): Rule(
        "Local jobs come forward first, then metajobs by their operation, then local jobs once more. "
        "Nobody ends later.",
        "guides/decide.md#coallocate-and-compress",
    ),
    ("offers", "arrival"): Rule(
        "Each cluster offers what it can promise; the tasks are shared out among the offers, and each cluster plans by "
        "deadlines.",
        "guides/decide.md#offers-compose-and-advance",
    ),
    ("offers", "early end"): Rule(
        "The cluster plans by deadlines anew, if nobody is late then.", "guides/decide.md#offers-compose-and-advance"
    ),
    ("bags", "arrival"): Rule(
        "Each cluster offers what ends when beside all that is held; the tasks are shared out among the offers.",
        "guides/decide.md#offers-compose-and-advance",
    ),
    ("bags", "early end"): Rule(
        "Others come forward on the cluster, as the completion of their bags over all clusters needs it.",
        "guides/decide.md#offers-compose-and-advance",
    ),
    ("queues", "end"): Rule(
        "Its processors are free, and every cluster plans its queue by its policy.", "guides/grid.md#words"
    ),
    ("queues", "arrival"): Rule(
        "A local job joins its cluster's queue; a mapped one goes to where its ECT is least, or as `mapping` says; "
        "a co-allocated one is looked after from its first try on.",
        "guides/grid.md#which-cluster-and-when-to-move",
    ),
    ("queues", "begin"): Rule("Its deadline has come, and its components run where they were claimed.", _SYSTEMS),
    ("queues", "try"): Rule(
        "Each component goes to the cluster with most idle processors; all are claimed or none. Only the last try "
        "evicts.",
        "guides/grid.md#when-the-components-of-a-job-find-room",
    ),
    ("queues", "pass"): Rule(
        "Mapped jobs that wait go to where they would end sooner, by the algorithm and its heuristic.",
        "guides/grid.md#which-cluster-and-when-to-move",
    ),
}


def rule_of(system: str, event: str, *, early: bool = False) -> Rule:
    """Return the rule of an event, or of an end before its planned end."""
    if system == "queues":
        return RULES[system, event]
    if event == "begin":
        return _BEGUN
    if event == "end":
        return RULES[system, "early end"] if early else _FREED
    return RULES[system, event]
