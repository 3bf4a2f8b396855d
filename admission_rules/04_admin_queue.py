# Reserve the queue admin for administrators (settings admin_groups and admins).
if job.queue == "admin":
    groups = settings("admin_groups", ["admin"])
    if job.user not in settings("admins", ["root", "oar"]) and not any(group in groups for group in job.groups):
        refuse(f"queue admin is for members of group {' or '.join(groups)}, choose another queue")
# mypy: ignore-errors
