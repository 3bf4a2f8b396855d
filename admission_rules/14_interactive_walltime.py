# Cap the walltime of interactive jobs (setting interactive_walltime_limit, seconds).
if job.interactive:
    limit = settings("interactive_walltime_limit", 12 * 3600)
    for position, request in enumerate(job.alternatives):
        if request.walltime is not None and request.walltime > limit:
            note(f"walltime of an interactive job cut to {limit // 3600}:{limit % 3600 // 60:02}:{limit % 60:02}")
            set_walltime(limit, position)
# mypy: ignore-errors
