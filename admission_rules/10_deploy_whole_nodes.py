# Refuse deploy jobs that ask for parts of nodes.
if any(kind.partition("=")[0] == "deploy" for kind in job.types):
    for request in job.alternatives:
        for group in request.groups:
            for level in group.levels:
                if level.name in ("cpu", "core", "thread", "resource_id"):
                    refuse(f"a deploy job takes whole nodes, leave /{level.name} out: for example -l /nodes=1")
# mypy: ignore-errors
