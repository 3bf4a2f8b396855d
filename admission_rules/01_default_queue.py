# Put a job that names no queue in the default one (setting default_queue).
if job.queue is None:
    job.queue = settings("default_queue", "default")
# mypy: ignore-errors
