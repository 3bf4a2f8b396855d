"""The graphics processors of this machine: which there are, how programs call them, and which files open them.

They are numbered by their PCI addresses, as ``nvidia-smi`` does: that is the property ``gpudevice`` of resources.
"""

from __future__ import annotations

import os
import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

CUDA, ROCR, UUIDS = "CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "OAR_GPU_UUIDS"
_CUDA_ORDER = "CUDA_DEVICE_ORDER"
NVIDIA, AMD = "0x10de", "0x1002"
_DISPLAY_CLASSES = ("0x0300", "0x0302", "0x0380")
_NVIDIA_MAJOR = 195
_UUID = re.compile(r"GPU-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.ASCII)
"""The driver writes question marks until it has asked the card."""
_UNIQUE_ID = re.compile(r"(?:0x)?([0-9a-f]{1,16})", re.ASCII)


class Gpu:
    """A graphics processor that computes. ``uuid`` is empty where its driver tells none.

    ``near`` are the threads close to it, none where the machine does not tell. ``files`` are the names below ``/dev``
    that open it, each with its major and minor number; they may be there or not.
    """

    __slots__ = ("address", "files", "near", "uuid", "vendor")

    def __init__(self, address: str, vendor: str, near: list[int], uuid: str, files: dict[str, tuple[int, int]]):
        self.address = address
        self.vendor = vendor
        self.near = near
        self.uuid = uuid
        self.files = files


def gpus(root: str) -> list[Gpu]:
    """Return the graphics processors that compute, in the order of their addresses; ``root`` is the machine's."""
    base = os.path.join(root, "sys/bus/pci/devices")
    cards = []
    for address in sorted(os.listdir(base)) if os.path.isdir(base) else []:
        path = os.path.join(base, address)
        kind, vendor = read_line(os.path.join(path, "class")), read_line(os.path.join(path, "vendor"))
        if vendor in (NVIDIA, AMD) and kind[:6] in _DISPLAY_CLASSES:
            facts = _told_by_driver(root, address) if vendor == NVIDIA else {}
            uuid = _uuid_of_nvidia(facts) if vendor == NVIDIA else _uuid_of_amd(path)
            files = {**_drawing_files(path), **_nvidia_file(facts)}
            cards.append(Gpu(address, vendor, numbers(read_line(os.path.join(path, "local_cpulist"))), uuid, files))
    return cards


def variables(cards: Sequence[Gpu], own: Collection[int], *, walled: bool = False) -> dict[str, str]:
    """Return the variables that let programs see the GPUs with the numbers ``own`` alone, or none if ``own`` is empty.

    CUDA and ROCm each count the cards of their maker; ``walled``: the job's cards alone, as it can open no others.
    Cards that this machine does not know are given as numbers.
    """
    unknown = [str(number) for number in sorted(own) if number >= len(cards)]
    shown: dict[str, list[str]] = {CUDA: [], ROCR: []}
    uuids = [cards[number].uuid for number in sorted(own) if number < len(cards) and cards[number].uuid]
    for name, vendor in ((CUDA, NVIDIA), (ROCR, AMD)):
        kind = [card for card in cards if card.vendor == vendor]
        mine = [cards[number] for number in sorted(own) if number < len(cards) and cards[number].vendor == vendor]
        named = all(card.uuid for card in mine)
        counted = mine if walled else kind
        shown[name] = [card.uuid if named else str(counted.index(card)) for card in mine]
        shown[name] += [str(len(mine) + place) for place in range(len(unknown))] if walled else unknown
    values = {name: ",".join(words) for name, words in shown.items()}
    if any(word.isdigit() for word in shown[CUDA]):
        values[_CUDA_ORDER] = "PCI_BUS_ID"
    return {**values, UUIDS: ",".join(uuids)}


def numbers(text: str) -> list[int]:
    """Return the numbers of a list such as ``0-3,8``."""
    listed: list[int] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        if first.strip():
            listed += range(int(first), int(last or first) + 1)
    return listed


def read_line(path: str) -> str:
    """Return the content of a kernel file, without its end of line; empty where there is none."""
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            return file.read().strip()
    except OSError:
        return ""


def _told_by_driver(root: str, address: str) -> dict[str, str]:
    """Return the facts of NVIDIA's driver about a card, by name; empty without that driver."""
    text = read_line(os.path.join(root, "proc/driver/nvidia/gpus", address, "information"))
    return {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in text.splitlines())}


def _uuid_of_nvidia(facts: dict[str, str]) -> str:
    uuid = facts.get("GPU UUID", "")
    return uuid if _UUID.fullmatch(uuid) else ""


def _uuid_of_amd(path: str) -> str:
    """Return how ROCm names a card, from the id that its driver tells."""
    match = _UNIQUE_ID.fullmatch(read_line(os.path.join(path, "unique_id")))
    return f"GPU-{match[1].zfill(16)}" if match else ""


def _nvidia_file(facts: dict[str, str]) -> dict[str, tuple[int, int]]:
    minor = facts.get("Device Minor", "")
    return {f"/dev/nvidia{minor}": (_NVIDIA_MAJOR, int(minor))} if minor.isdigit() else {}


def _drawing_files(path: str) -> dict[str, tuple[int, int]]:
    """Return the card's files of the kernel's Direct Rendering Manager, as ``/sys`` describes them."""
    folder = os.path.join(path, "drm")
    files = {}
    for name in sorted(os.listdir(folder)) if os.path.isdir(folder) else []:
        major, _, minor = read_line(os.path.join(folder, name, "dev")).partition(":")
        if major.isdigit() and minor.isdigit():
            files[f"/dev/dri/{name}"] = (int(major), int(minor))
    return files
