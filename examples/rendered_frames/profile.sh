#!/bin/sh
# What oarsub --profile calls: its last line is the seconds of a frame.
exec python3 -m oarpy.examples.rendered_frames.frames --profile
