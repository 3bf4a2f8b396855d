"""What must hold in any run of applications that negotiate, read from the lines that it prints."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

Json = dict[str, Any]


class Ranking:
    """Follows lines, and knows who is in line and who comes before whom."""

    def __init__(self, file: Json) -> None:
        self._by_request = file.get("rank", "first-request") == "first-request"
        self._most = file.get("most", 200)
        self._ranks: dict[int, tuple[float, int]] = {}
        self._states: dict[int, str] = {}

    def follow(self, line: Json) -> None:
        """Take in a line."""
        if line.get("message") == ("request" if self._by_request else "subscribe"):
            self._ranks.setdefault(line["app"], (line["t"], line["app"]))
        if "state" in line:
            self._states[line["app"]] = line["state"]

    def line(self) -> list[int]:
        """Return who is in line, by rank."""
        asking = [one for one, state in self._states.items() if state in ("RequestSent", "Waiting")]
        return sorted(asking, key=lambda one: self._ranks[one])[: self._most]


def no_host_is_given_twice(file: Json, lines: list[Json]) -> None:
    """Started applications, and ghosts that everybody sees, never have more hosts than there are."""
    last = "Finished" if file.get("ghosts") == "always" else "Ghost"
    held: dict[int, dict[str, int]] = {}
    for line in lines:
        if line.get("message") == "startNotify":
            held[line["app"]] = line["hosts"]
        elif line.get("state") == last:
            held.pop(line["app"], None)
        busy: defaultdict[str, int] = defaultdict(int)
        for hosts in held.values():
            for cluster, number in hosts.items():
                busy[cluster] += number
        assert all(number <= file["clusters"][cluster]["hosts"] for cluster, number in busy.items()), line


def views_and_answers_come_to_rest(file: Json, lines: list[Json]) -> int:
    """After one event there are at most as many rounds of views and answers as applications in line.

    Events are what scripts send, arrivals, starts, ends and the ends of ghosts; a round is a pass that follows
    answers. Holds where answers take no time and passes do not wait. Returns the most rounds that there were.
    """
    scripted = {entry["id"] for entry in file["applications"] if "script" in entry}
    ranking = Ranking(file)
    rounds = most = 0
    answered = False
    for line in lines[:-1]:
        ranking.follow(line)
        word = line.get("message") or line["state"]
        if word in ("subscribe", "Started", "FinishSent", "Finished") or (
            word == "request" and line["app"] in scripted
        ):
            rounds, answered = 0, False
        elif word == "request":
            answered = True
        elif word == "changeNotify" and answered:
            rounds, answered = rounds + 1, False
            most = max(most, rounds)
            assert rounds <= len(ranking.line()), line
    return most


def requests_move_nobody_ahead(file: Json, lines: list[Json]) -> int:
    """A pass after nothing but requests moves the start of nobody ranked ahead of all who sent them.

    Holds where passes do not wait and all are considered. Returns how many estimates were looked at.
    """
    ranking = Ranking(file)
    looked_at = 0
    asking: list[int] = []
    quiet, instant = True, None
    for line in lines[:-1]:
        word = line.get("message") or line["state"]
        if line["t"] != instant or word in ("subscribe", "Started", "FinishSent", "Finished", "Ghost"):
            quiet = line["t"] != instant or word == "subscribe"
            asking = asking if line["t"] == instant else []
            instant = line["t"]
        ranking.follow(line)
        if word == "request":
            asking.append(line["app"])
        elif word == "estimate" and quiet and asking:
            order = ranking.line()
            first = min((order.index(one) for one in asking if one in order), default=0)
            if line["app"] in order:
                assert order.index(line["app"]) >= first, line
                looked_at += 1
    return looked_at
