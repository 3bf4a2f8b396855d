# Keep jobs off resources that are being drained; running jobs finish there.
add_property("drain = 'NO'")
# mypy: ignore-errors
