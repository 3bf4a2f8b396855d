"""``oarpy demo --gpus``: jobs on graphics processors that are files, for real but for these, as a transcript."""

from __future__ import annotations

from pathlib import Path

from oarpy.local_cluster.sandbox import Sandbox, Settings
from oarpy.local_cluster.transcript import FINAL, Transcript, play

_NODES = ("node1", "node2")
_GPUS = 2
_LOOK = 5
"""Seconds between two looks at GPUs. A look stands for three of them, so a busy machine may be late."""
_TIMEOUT = 120.0
_CARDS = "cards"
"""The folder in which jobs find their GPUs by UUID; real GPUs are queried through their drivers."""
_TRAIN = f"""#!/bin/sh
for card in $(echo $OAR_GPU_UUIDS | tr , ' '); do echo 93 > {_CARDS}/$card/gpu_busy_percent; done
echo job $OAR_JOB_ID has $OAR_GPU_UUIDS
exec sleep 600
"""
_HOURS = (
    "SELECT user_name, round(used_seconds::numeric) AS core_seconds,"
    " round(used_gpu_hours::numeric * 3600) AS gpu_seconds FROM oar_report.accounting"
)


class GpuDemo(Transcript):
    """The steps of the demo, each a method; it prints the output of the commands."""

    def run(self) -> None:
        """Run every step. Raises :class:`OarpyError` if a step fails."""
        self.say(
            f"A cluster in one folder: nodes with {_GPUS} GPUs each, which are files as the driver of AMD has them"
        )
        self._make_cards()
        self.sandbox.create()
        self.sandbox.start()
        self.sandbox.wait_for_gateway(30)
        self.show("oarproperty", "-a", "gpu")
        self.show("oarproperty", "-a", "gpudevice")
        hierarchy = f"/host=node[1-{len(_NODES)}]/gpu={{{_GPUS}}}/core={{2}}"
        self.show("oaradmin", "resources", "add", hierarchy, "--transport", "local")
        jobs = self._share()
        self._idle(jobs)
        self._report(jobs)

    def _make_cards(self) -> None:
        """Write the kernel's files of each GPU, all of them idle, and a program that makes GPUs compute."""
        work = self.sandbox.directory / "work"
        cards = work / _CARDS
        cards.mkdir(parents=True)
        (work / "train").write_text(_TRAIN, encoding="utf-8")
        (work / "train").chmod(0o755)
        for node in _NODES:
            for number in range(_GPUS):
                name = f"{node[-1]}{number}"
                card = machine(self.sandbox.directory) / node / f"sys/bus/pci/devices/0000:0{number}:00.0"
                card.mkdir(parents=True)
                shown = {
                    "vendor": "0x1002",
                    "class": "0x038000",
                    "unique_id": f"{name:0>16}",
                    "gpu_busy_percent": "0",
                    "mem_info_vram_used": str(3 << 30),
                    "mem_info_vram_total": str(64 << 30),
                }
                for file, text in shown.items():
                    (card / file).write_text(f"{text}\n", encoding="utf-8")
                (cards / f"GPU-{name:0>16}").symlink_to(card)

    def _share(self) -> tuple[int, int, int, int]:
        self.say("Three jobs of one GPU get three GPUs; one of two waits: only one is left")
        one_gpu = ("-l", "/gpu=1/core=1,walltime=0:10:0")
        first, second = (self.submit("-n", name, *one_gpu, "./train") for name in ("first", "second"))
        forgetful = self.submit("-n", "forgetful", *one_gpu, "echo job $OAR_JOB_ID has $OAR_GPU_UUIDS; sleep 600")
        large = self.submit("-n", "large", "-l", "/gpu=2/core=1,walltime=0:10:0", "./train")
        self.sandbox.wait_for([first, second, forgetful], ("Running",), _TIMEOUT)
        self.sandbox.wait_for([large], ("Waiting",), _TIMEOUT)
        self.show("oarstat")
        self.show("oarstat", "--why", str(large))
        return first, second, forgetful, large

    def _idle(self, jobs: tuple[int, int, int, int]) -> None:
        first, second, forgetful, large = jobs
        self.say("The one whose GPU is idle is warned, then ended; what it had goes to the one that waits")
        self.sandbox.wait_for([forgetful], ("Error",), _TIMEOUT)
        self.show("oarstat", "-e", "-j", str(forgetful))
        self.sandbox.wait_for([large], ("Running",), _TIMEOUT)
        self.print_file(f"OAR.first.{first}.stdout")
        self.print_file(f"OAR.forgetful.{forgetful}.stdout")
        self.show("oardel", str(first), str(second), str(large))
        self.sandbox.wait_for([first, second, large], FINAL, _TIMEOUT)

    def _report(self, jobs: tuple[int, int, int, int]) -> None:
        self.say("How busy their GPUs were, and hours of GPUs beside those of cores")
        self.show("oarstat", "--efficiency", *map(str, jobs[:3]))
        self.sandbox.run("oaraccounting")
        self.show("oarpy", "db", "query", _HOURS)
        self.show("oarstat", "--accounting", "today")


def machine(directory: Path) -> Path:
    """Return the folder with the files of all nodes."""
    return directory / "work" / "machine"


def run_gpu_demo(directory: Path) -> None:
    """Run the demo in ``directory``; data and logs stay there."""
    settings: Settings = {
        "nodes": {"machine_root": str(machine(directory) / "%h")},
        "jobs": {"measure_gpus": _LOOK, "idle_gpu": f"{_LOOK}s: warn, {3 * _LOOK}s: end"},
        "accounting": {"weights": {"core": 1, "gpu": 20}},
    }
    play(GpuDemo(Sandbox(directory, settings)))
