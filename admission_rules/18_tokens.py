# Turn the type token:NAME=COUNT into a request for COUNT resources of type NAME, such as licences.
for kind in job.types:
    name, _, count = kind.removeprefix("token:").partition("=")
    if not kind.startswith("token:"):
        continue
    if name == "default":
        refuse("token default: resources of type default are what -l asks for")
    if job.properties:
        # what the job wants of its nodes is not asked of licences
        restrict_groups(job.properties)
        job.properties = ""
    wanted = f"{{type = '{name}'}}/resource_id={count}"
    job.alternatives = [
        {
            "resources": ",".join(["+".join([*map(str, request.groups), wanted]), *map(str, request.consumes)]),
            "walltime": request.walltime,
        }
        if not any(f"type = '{name}'" in group.filter for group in request.groups)
        else request
        for request in job.alternatives
    ]
# mypy: ignore-errors
