# Refuse requests that use a column of the system as a level of the hierarchy.
SYSTEM = [
    "type",
    "state",
    "state_by",
    "state_since",
    "state_num",
    "next_state",
    "finaud_decision",
    "next_finaud_decision",
    "drain",
    "besteffort",
    "deploy",
    "available_upto",
    "last_available_upto",
    "last_job_date",
    "expiry_date",
    "desktop_computing",
    "suspended_jobs",
    "scheduler_priority",
]
for request in job.alternatives:
    for group in request.groups:
        for level in group.levels:
            if level.name in SYSTEM:
                refuse(f"{level.name} is a property of the system and no level of resources, leave /{level.name} out")
# mypy: ignore-errors
