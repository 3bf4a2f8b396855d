"""What a job of a scenario file is, for the naive planner: its types, whom it shares with, which quotas match it."""

from __future__ import annotations

from typing import Any

Job = dict[str, Any]


def arrival(job: Job) -> tuple[int, int]:
    """First come, first served; the lower id at the same instant."""
    return job.get("submitted", 0), job["id"]


def asked(job: Job, option: int) -> dict[str, int]:
    """Amounts of consumables: ``/core=1,mem=2`` asks for 2 of mem."""
    parts = job["requests"][option]["resources"].split(",")[1:]
    return {name: int(amount) for name, _, amount in (part.partition("=") for part in parts)}


def level_name(name: str) -> str:
    return "network_address" if name == "nodes" else name


def queue_of(job: Job) -> str:
    return str(job.get("queue", "default"))


def is_besteffort(job: Job) -> bool:
    return queue_of(job) == "besteffort" or "besteffort" in job.get("types", [])


def word(job: Job, name: str) -> list[str]:
    return [text.partition("=")[2] for text in job.get("types", []) if text.partition("=")[0] == name]


def inside(job: Job) -> str | None:
    return next(iter(word(job, "inner")), None)


def opens(job: Job) -> list[str]:
    return [name or str(job["id"]) for name in word(job, "container")]


def shares(one: Job, two: Job) -> bool:
    sharing = [word(job, "timesharing") for job in (one, two)]
    if all(sharing):
        words = [text[0].split(",") for text in sharing]
        users = ["user" in part for part in words]
        names = ["name" in part for part in words]
        if (
            users[0] == users[1]
            and names[0] == names[1]
            and (not users[0] or one["user"] == two["user"])
            and (not names[0] or one.get("name", "") == two.get("name", ""))
        ):
            return True
    return any(
        name in word(second, "allowed")
        for first, second in ((one, two), (two, one))
        for name in word(first, "placeholder")
    )


def exempt(job: Job) -> bool:
    return bool(opens(job)) or "no_quotas" in job.get("types", [])


def matches(rule: dict[str, Any], job: Job) -> bool:
    if rule.get("array", 0) not in (0, job.get("array", 0)):
        return False
    values = {"queue": [queue_of(job)], "project": [job.get("project", "default")], "user": [job["user"]]}
    if any(rule[name] not in ("*", "/", *value) for name, value in values.items()):
        return False
    types = job.get("types", [])
    if rule["type"] == "*":
        return True
    return bool(types) if rule["type"] == "/" else rule["type"] in types


def valid(rule: dict[str, Any], second: int) -> bool:
    """Tell whether a rule is valid then; one without spans always is."""
    return rule.get("valid") is None or any(begin <= second < end for begin, end in rule["valid"])


def same_key(rule: dict[str, Any], kind: str, job: Job, other: Job) -> bool:
    if not matches(rule, other) or (rule["type"] == "/" and kind not in other.get("types", [])):
        return False
    values = [
        ("queue", queue_of),
        ("project", lambda one: one.get("project", "default")),
        ("user", lambda one: one["user"]),
    ]
    return all(rule[name] != "/" or value(job) == value(other) for name, value in values)
