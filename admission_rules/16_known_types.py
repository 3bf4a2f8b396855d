# Refuse types that are unknown, badly written, contradictory, or not offered here (extra_types, types_not_offered).
not_offered = settings("types_not_offered", ["assign", "find", "constraints"])
dates = {}
for word in job.types:
    name, _, argument = word.partition(":" if word.startswith("token:") else "=")
    if name in not_offered:
        refuse(f"job type {name} is not offered on this cluster")
    elif name in job_types:
        fault = job_types[name].fault(word)
        if fault:
            refuse(fault)
        if job_types[name].date:
            dates[name] = read_date(argument)
    elif name not in settings("extra_types", []):
        known = sorted(set(job_types) - set(not_offered))
        close = [f"; did you mean {kind}?" for kind in sorted(job_types) if kind[:4] == name[:4]]
        note = f"for types of tools an admin sets submission.extra_types = ['{name}']"
        refuse(f"unknown job type '{word}', known are {', '.join(known)}{close[0] if close else ''}; {note}")

names = [word.partition("=")[0] for word in job.types]
for name in names if "exclusive" in names else ():
    if name in job_types and job_types[name].shares:
        refuse(f"a job of type exclusive has its nodes to itself, leave {name} out")
for name in ("deadline", "expire"):
    if name in dates and dates[name] <= site.now():
        refuse(f"the date of job type {name} is past, give a later one")
if "postpone" in dates and "deadline" in dates and dates["postpone"] >= dates["deadline"]:
    refuse("the job is postponed beyond its deadline, give an earlier postpone or a later deadline")
# mypy: ignore-errors
