# An inner job needs a container that is alive, and an inner reservation one that is a reservation itself.
for kind in job.types:
    name, _, container = kind.partition("=")
    if name != "inner" or not container:
        continue
    found = list(site.containers(container))
    if container.isdigit():
        outer = site.job(int(container))
        if outer is not None and "container" in outer.types:
            found.append(outer)
    if not found:
        refuse(f"no container {container} is waiting or running, submit it first with -t container={container}")
    if job.reservation is not None and not any(outer.reservation for outer in found):
        refuse(f"a reservation inside {container} needs that container to be a reservation")
# mypy: ignore-errors
