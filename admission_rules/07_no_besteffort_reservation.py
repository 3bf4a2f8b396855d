# Refuse advance reservations of besteffort jobs, which could not keep them.
if job.reservation is not None and "besteffort" in job.types:
    refuse("a besteffort job cannot be an advance reservation, leave out -r or -t besteffort")
# mypy: ignore-errors
