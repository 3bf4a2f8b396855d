#!/usr/bin/env python3
"""Render frames of a film with POV-Ray, one a task of a bag, or predict how long a frame takes.

    frames.py --frames 24 3            renders frame 3 in full, as frame-3.png
    frames.py --frames 24 --profile    prints the seconds that a frame takes in full

For the profile all frames are rendered at low resolution, and the dearest one in full. ``oarpy decide`` predicts the
others from these. As a bag:

    oarsub --bag 24 --profile ./profile.sh -l core=1,walltime=0:10:0 'frames.py --frames 24 $OAR_BAG_TASK'
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

_SCENE = Path(__file__).with_name("spheres.pov")
_OARPY = Path(sys.executable).with_name("oarpy")
_LOW = 8
"""A frame at low resolution has this part of the width, and of the height."""


def render(options: argparse.Namespace, frame: int, output: Path, part: int = 1) -> float:
    """Render a frame, counted from 1; return the seconds that it took."""
    width, height = options.width // part, options.height // part
    clock = (frame - 1) / max(options.frames - 1, 1)
    sizes = (f"+W{width}", f"+H{height}", f"+K{clock}", "+WT1", "+A0.3")
    began = time.monotonic()
    subprocess.run(
        ["povray", f"+I{_SCENE}", f"+O{output}", "+FN", "-D", "-GA", *sizes], check=True, stderr=subprocess.DEVNULL
    )
    return time.monotonic() - began


def question(options: argparse.Namespace) -> dict[str, Any]:
    """Render all frames at low resolution and the dearest in full; return the question how long a frame takes."""
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "frame.png"
        low = [render(options, frame, output, _LOW) for frame in range(1, options.frames + 1)]
        dearest = max(range(len(low)), key=low.__getitem__)
        full = render(options, dearest + 1, output)
    return {"ask": "predict", "predictor": "profile", "low": low, "base": dearest, "full": full, "frames": 1}


def predicted(asked: dict[str, Any]) -> float:
    """Return the seconds that ``oarpy decide`` predicts."""
    with tempfile.NamedTemporaryFile("w", encoding="utf-8", suffix=".json") as file:
        json.dump(asked, file)
        file.flush()
        told = subprocess.run([_OARPY, "decide", file.name], check=True, stdout=subprocess.PIPE, text=True).stdout
    return float(json.loads(told)["seconds"])


def main() -> None:
    """Render a frame, or print the seconds of one."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("frame", nargs="?", type=int, help="the frame to render, counted from 1")
    parser.add_argument("--frames", type=int, default=24, help="frames of the film")
    parser.add_argument("--width", type=int, default=640)
    parser.add_argument("--height", type=int, default=480)
    parser.add_argument("--profile", action="store_true", help="print the seconds that a frame takes")
    options = parser.parse_args()
    if options.profile:
        print(f"{predicted(question(options)):.3f}")
    elif options.frame is not None:
        render(options, options.frame, Path(f"frame-{options.frame}.png"))
    else:
        parser.error("a frame, or --profile")


if __name__ == "__main__":
    main()
