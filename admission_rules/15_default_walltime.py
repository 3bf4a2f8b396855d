# Give the default walltime to requests without one (setting default_walltime, seconds).
set_walltime(settings("default_walltime", 2 * 3600), only_missing=True)
# mypy: ignore-errors
