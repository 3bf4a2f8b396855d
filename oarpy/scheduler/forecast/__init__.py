"""What the past tells of the next job: when it will really start, and which request it would fit in.

- ``fitting_requests`` tells which smaller request past jobs of a kind would have fitted in.
- ``completions`` tells when jobs would end, had others left or joined; ``queue_in_plan`` is the plan it goes on from.
- ``start_intervals`` learns from past starts, and tells intervals that a given part of the starts falls into.

Pure: reads no clock and no database. May import the model.
"""
