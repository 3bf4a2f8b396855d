# Example: refuse the job of a user who has many already (setting jobs_per_user).
# enabled: no
limit = settings("jobs_per_user", 1000)
live = site.count_jobs(user=job.user)
if live + job.array_size > limit:
    refuse(f"{job.user} has {live} jobs and asks for {job.array_size} more, at most {limit} may wait or run")
# mypy: ignore-errors
