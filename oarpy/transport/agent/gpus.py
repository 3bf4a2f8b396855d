"""The graphics processors of this machine: which there are, how programs call them, and which files open them.

They are numbered by their PCI addresses, as ``nvidia-smi`` does: that is the property ``gpudevice`` of resources. A
card that NVIDIA's driver divides (Multi-Instance GPU, MIG) counts as its instances: each computes for itself, with
memory of its own. The driver tells of them below ``/proc/driver/nvidia/capabilities``.
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
_CAPABILITIES = "nvidia-caps"
"""The driver's name for the files that open parts of a card, and for their folder below ``/dev``."""
_INSTANCE = re.compile(r"(?:gi|ci)(\d+)", re.ASCII)
_UUID = re.compile(r"GPU-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.ASCII)
"""The driver writes question marks until it has asked the card."""
_UNIQUE_ID = re.compile(r"(?:0x)?([0-9a-f]{1,16})", re.ASCII)


class Gpu:
    """A graphics processor that computes. ``uuid`` is empty where its driver tells none.

    ``near`` are the threads close to it, none where the machine does not tell. ``files`` are the names below ``/dev``
    that open it, each with its major and minor number; they may be there or not. ``instance`` has the driver's numbers
    of the GPU instance and the compute instance of a part of a card; None for a whole card. Parts of a card have files
    in common.
    """

    __slots__ = ("address", "files", "instance", "near", "uuid", "vendor")

    def __init__(
        self,
        address: str,
        vendor: str,
        near: list[int],
        uuid: str,
        files: dict[str, tuple[int, int]],
        instance: tuple[int, int] | None = None,
    ):
        self.address = address
        self.vendor = vendor
        self.near = near
        self.uuid = uuid
        self.files = files
        self.instance = instance


def gpus(root: str) -> list[Gpu]:
    """Return the graphics processors that compute, in the order of their addresses; ``root`` is the machine's.

    The instances of a divided card take its place, in the order of their numbers.
    """
    base = os.path.join(root, "sys/bus/pci/devices")
    cards = []
    for address in sorted(os.listdir(base)) if os.path.isdir(base) else []:
        path = os.path.join(base, address)
        kind, vendor = read_line(os.path.join(path, "class")), read_line(os.path.join(path, "vendor"))
        if vendor in (NVIDIA, AMD) and kind[:6] in _DISPLAY_CLASSES:
            facts = _told_by_driver(root, address) if vendor == NVIDIA else {}
            uuid = _uuid_of_nvidia(facts) if vendor == NVIDIA else _uuid_of_amd(path)
            files = {**_drawing_files(path), **_nvidia_file(facts)}
            card = Gpu(address, vendor, numbers(read_line(os.path.join(path, "local_cpulist"))), uuid, files)
            cards += _instances(root, card, facts.get("Device Minor", "")) or [card]
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


def _instances(root: str, card: Gpu, minor: str) -> list[Gpu]:
    """Return the parts of a card of NVIDIA that compute by themselves; none where the card is not divided."""
    major = _major_of_capabilities(root)
    base = os.path.join(root, "proc/driver/nvidia/capabilities", f"gpu{minor}", "mig")
    parts = []
    for gpu_instance, folder in _numbered(base):
        for compute_instance, inner in _numbered(folder):
            uuid = f"MIG-{card.uuid}/{gpu_instance}/{compute_instance}" if card.uuid else ""
            files = {**card.files, **_capability_file(folder, major), **_capability_file(inner, major)}
            parts.append(Gpu(card.address, card.vendor, card.near, uuid, files, (gpu_instance, compute_instance)))
    return parts


def _numbered(folder: str) -> list[tuple[int, str]]:
    """Return the folders of the instances in a folder of the driver, by their numbers."""
    names = os.listdir(folder) if os.path.isdir(folder) else []
    matches = [(match, name) for name in names if (match := _INSTANCE.fullmatch(name))]
    return sorted((int(match[1]), os.path.join(folder, name)) for match, name in matches)


def _capability_file(folder: str, major: int | None) -> dict[str, tuple[int, int]]:
    """Return the file below ``/dev`` for the right to use an instance."""
    facts = dict(line.split(": ", 1) for line in read_line(os.path.join(folder, "access")).splitlines() if ": " in line)
    minor = facts.get("DeviceFileMinor", "")
    if major is None or not minor.isdigit():
        return {}
    return {f"/dev/{_CAPABILITIES}/nvidia-cap{minor}": (major, int(minor))}


def _major_of_capabilities(root: str) -> int | None:
    """Return the major number that the kernel gave to the files of capabilities."""
    for line in read_line(os.path.join(root, "proc/devices")).splitlines():
        number, _, name = line.strip().partition(" ")
        if name == _CAPABILITIES and number.isdigit():
            return int(number)
    return None


def _drawing_files(path: str) -> dict[str, tuple[int, int]]:
    """Return the card's files of the kernel's Direct Rendering Manager, as ``/sys`` describes them."""
    folder = os.path.join(path, "drm")
    files = {}
    for name in sorted(os.listdir(folder)) if os.path.isdir(folder) else []:
        major, _, minor = read_line(os.path.join(folder, name, "dev")).partition(":")
        if major.isdigit() and minor.isdigit():
            files[f"/dev/dri/{name}"] = (int(major), int(minor))
    return files
