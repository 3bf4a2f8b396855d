"""Forecasts from past jobs and from the plan: the likely start of a job, and a smaller request that it would fit in.

- ``fitting_requests`` finds the smaller request that past jobs of a kind would have fitted in.
- ``completions`` computes the ends of jobs, had others left or joined. It starts from the plan in ``queue_in_plan``.
- ``start_intervals`` learns from past starts. It gives intervals that a given share of the starts falls into.

Pure: reads no clock and no database. May import the model.
"""
