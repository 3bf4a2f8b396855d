"""Measurements, each one command: ``oarpy bench NAME``.

They print ratios to what the machine itself can do in the same run, and save JSON under ``results/``.
``processor_time``, ``server_processes`` and ``results`` are what several of them share. ``grid_passes`` and
``door_session`` belong to ``grid``, ``virtual_time`` to ``grid`` and ``windows``, ``launcher_connections`` and
``growing_job`` to ``negotiation``, the former to ``negotiated_run`` too, which is the real server of
``oarpy reproduce``. May import everything.
"""

from __future__ import annotations

MEASUREMENTS = {
    "main_job": "the main job on a real cluster: a burst, single jobs, commands; again with a long history",
    "burst": "where the time of a burst of short jobs goes",
    "clients": "what a command costs as a whole process",
    "submit": "submitting many jobs: a loop, eight loops at once, one batch; to the last recorded end",
    "history": "a million finished jobs: commands, passes, bytes a job; archive, drop and restore of a month",
    "planning": "passes of the planner against jobs, cores and kind of request",
    "windows": "reservations that may move: new ones admitted and refused, replanning; 15 days of a log, simulated",
    "mapping": "processes mapped over unlike nodes: maps, and passes with 100 such jobs waiting",
    "bags": "bags of tasks: promises beside a queue and reservations that may move; predicted run times",
    "stepping": "going through a schedule of 10,000 jobs, back too, in Chromium too",
    "why": "oarstat --why beside a full queue",
    "predictions": "how often starts fall into the intervals that users are told: --traces FOLDER",
    "simulation": "the simulator on real traces: --traces FOLDER",
    "esp2": "ESP2 beside the published efficiencies; --real runs the light variant for real",
    "negotiation": "applications that negotiate: from events to views read, views, idle connections, extensions",
    "grid": "a broker and its clusters: arrays, places, common starts, takeover, passes; a month simulated",
    "agent": "starts and ends of short jobs at one node's agent",
    "nodes": "many nodes on one machine, each with an agent of its own",
    "soak": "many jobs through one server",
    "steps": "steps a second inside a job of four nodes",
    "web": "pages over a busy week, in Chromium too, and 200 listeners",
}
"""The measurements of ``oarpy bench``, by the name of the module."""
