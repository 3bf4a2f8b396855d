"""When a waiting job will really start: intervals learnt from how past predictions came out.

- ``start_intervals`` learns from past starts, and tells intervals that a given part of the starts falls into.

Pure: reads no clock and no database. May import the model.
"""
