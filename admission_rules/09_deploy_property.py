# Give deploy jobs only resources that allow it.
if any(kind.partition("=")[0] == "deploy" for kind in job.types):
    add_property("deploy = 'YES'")
# mypy: ignore-errors
