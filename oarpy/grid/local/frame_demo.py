"""The part of the demo about a bag of frames, which POV-Ray renders after each cluster has measured one."""

from __future__ import annotations

import os
import shutil
from importlib.resources import as_file, files

from oarpy.grid.local.island_job import PYTHON, commands_of_nodes, let_users_run
from oarpy.grid.local.transcript import Transcript, say, write

_FILM = "oarpy.examples.rendered_frames"
_FRAMES = 6
_RENDER = f"{PYTHON} frames.py --frames {_FRAMES} --width 160 --height 120"
_PROFILE = f"""#!/bin/sh
began=$(date +%s.%N)
{_RENDER} 1
date +%s.%N | awk -v began="$began" '{{ print $1 - began }}'
"""


def what_is_missing() -> str:
    """Say why no frames can be rendered here; nothing if that is possible."""
    if shutil.which("povray") is None:
        return "no povray (Debian: povray)"
    return "" if os.access(PYTHON, os.X_OK) else f"no {PYTHON}"


class FrameDemo(Transcript):
    """The steps, each a method. All clusters are idle before and after."""

    def run(self) -> None:
        """Render a film, if POV-Ray is here."""
        if missing := what_is_missing():
            say(f"A bag of frames is not shown: there is {missing}")
            return
        self._wait_for_ability("profile")
        let_users_run(commands_of_nodes(self._grid))
        home = self._grid.home
        with as_file(files(_FILM)) as film:
            for name in ("frames.py", "spheres.pov"):
                shutil.copy(film / name, home / name)
        profile = home / "profile.sh"
        profile.write_text(_PROFILE)
        profile.chmod(0o755)
        self._rendered(str(profile))

    def _rendered(self, profile: str) -> None:
        """Have the frames profiled and rendered."""
        say("POV-Ray renders a film, a frame a task. Each cluster first measures how long a frame takes")
        bag = ("--bag", str(_FRAMES), "--profile", profile, "-l", "core=1,walltime=0:5:0", "--answer-timeout", "300")
        (job,) = self._submit(*bag, f"{_RENDER} $OAR_GRID_TASK")
        self._show("oargridstat", "--why", str(job))
        told = self._job(job)["bag"]
        self._hold(told["profile"]["missing"] == [], f"there is no profile: {told['profile']['missing']}")
        self._wait("all frames are rendered", lambda: self._state(job) == "Terminated")
        self._show("oargridstat", str(job))
        frames = sum((self._grid.home / f"frame-{frame}.png").exists() for frame in range(1, _FRAMES + 1))
        write(f"{frames} frames are rendered\n")
        self._hold(frames == _FRAMES, "some frames were not rendered")
