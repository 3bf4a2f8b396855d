"""Which device files of this machine a job with certain GPUs may not open, by the rules of the site."""

from __future__ import annotations

import fnmatch
import glob
import os
import re
import stat

from oarpy.transport.agent.gpus import gpus, variables

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence
    from typing import Any

    from oarpy.transport.agent.gpus import Gpu

    Device = tuple[str, int, int]
    """``b`` or ``c``, the major and the minor number: by these, and not by a name, the kernel opens a device."""

OWN = "own"
"""The word of a rule for files that only the holder of their GPU opens; the other is for holders of any GPU."""
_NUMBER = re.compile(r"(.*?)(\d+)", re.ASCII)


class Devices:
    """The device files of a machine below ``root``, and the jobs that may open them.

    ``rules`` are patterns of names, each with the jobs that may open such files; the first that fits counts.
    """

    def __init__(self, root: str, rules: Sequence[tuple[str, str]]) -> None:
        self._root = root
        self.rules = rules

    def variables(self, own: Collection[int] | None, *, walled: bool) -> dict[str, str]:
        """Return the variables that show programs these GPUs alone; empty for a job that may see all.

        ``walled``: they can open no others.
        """
        return {} if own is None else variables(gpus(self._root), own, walled=walled)

    def denied(self, own: Collection[int] | None) -> list[Device]:
        """Return the devices that a job with these GPUs may not open; none for a job that may open all."""
        if own is None or not self.rules:
            return []
        cards = gpus(self._root)
        owners: dict[str, set[int]] = {}
        for number, card in enumerate(cards):
            for path in card.files:
                owners.setdefault(path, set()).add(number)
        denied = set()
        for path, device in self._governed(cards):
            whose = next(word for pattern, word in self.rules if _fits(path, pattern))
            if not own or (whose == OWN and _owners(path, owners).isdisjoint(own)):
                denied.add(device)
        return sorted(denied)

    def _governed(self, cards: Sequence[Gpu]) -> Iterator[tuple[str, Device]]:
        """Yield the devices that a rule names, including GPUs whose files a program makes when it needs them."""
        for card in cards:
            for path, (major, minor) in card.files.items():
                if any(_fits(path, pattern) for pattern, _ in self.rules):
                    yield path, ("c", major, minor)
        root = self._root.rstrip("/")
        for pattern, _ in self.rules:
            for path in glob.glob(glob.escape(root) + pattern):
                try:
                    entry = os.lstat(path)
                except OSError:
                    continue
                if stat.S_ISCHR(entry.st_mode) or stat.S_ISBLK(entry.st_mode):
                    kind = "c" if stat.S_ISCHR(entry.st_mode) else "b"
                    yield path[len(root) :], (kind, os.major(entry.st_rdev), os.minor(entry.st_rdev))


def devices_of(settings: dict[str, Any]) -> Devices:
    """Return the devices that the settings of an agent are about."""
    return Devices(settings["machine_root"], settings["device_rules"])


def _fits(path: str, pattern: str) -> bool:
    return path.count("/") == pattern.count("/") and fnmatch.fnmatchcase(path, pattern)


def _owners(path: str, owners: dict[str, set[int]]) -> set[int]:
    """Return the numbers of the GPUs that a file belongs to: several for parts of one card, none for any other file.

    Where the machine lists no file of this kind, the number at the end of the name is the number of the GPU.
    """
    if path in owners:
        return owners[path]
    match = _NUMBER.fullmatch(path)
    if match is None or any((other := _NUMBER.fullmatch(known)) and other[1] == match[1] for known in owners):
        return set()
    return {int(match[2])}
