# Ask for the default resources where a request names none (setting default_resources).
default = settings("default_resources", "/resource_id=1")
if not job.alternatives:
    job.alternatives = [default]
job.alternatives = [
    request if request.groups else {"resources": default, "walltime": request.walltime} for request in job.alternatives
]
# mypy: ignore-errors
