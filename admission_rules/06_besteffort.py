# Tie the besteffort type, queue and resources together: whoever asks for one of the first two gets all three.
if "besteffort" in job.types and job.queue != "besteffort":
    note("type besteffort: the job goes to queue besteffort")
    job.queue = "besteffort"
if job.queue == "besteffort":
    add_type("besteffort")
    add_property("besteffort = 'YES'")
# mypy: ignore-errors
