# Send desktop computing jobs to the resources made for them, where there are any.
if "desktop_computing" in job.types:
    if "desktop_computing" not in site.properties():
        refuse("this cluster has no desktop computing resources, leave out -t desktop_computing")
    add_property("desktop_computing = 'YES'")
# mypy: ignore-errors
