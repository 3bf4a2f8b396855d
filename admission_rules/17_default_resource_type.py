# Ask for resources of type default unless a filter names the type.
if not names_property(job.properties, "type"):
    restrict_groups("type = 'default'", unless_named="type")
# mypy: ignore-errors
