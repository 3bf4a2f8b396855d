# Reserve job type no_quotas for administrators (settings no_quotas_users, admin_groups and admins).
if "no_quotas" in job.types:
    users = [*settings("admins", ["root", "oar"]), *settings("no_quotas_users", [])]
    groups = settings("admin_groups", ["admin"])
    if job.user not in users and not any(group in groups for group in job.groups):
        refuse("job type no_quotas is for administrators, leave it out")
# mypy: ignore-errors
