# Refuse the jobs of system users (setting refused_users; an empty list lets a one-user cluster run as root).
if job.user in settings("refused_users", ["root", "oar"]):
    refuse(f"user {job.user} may not submit jobs, use an ordinary account")
# mypy: ignore-errors
