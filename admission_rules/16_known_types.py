# Refuse job types that are unknown, badly written, or not offered here (settings extra_types, types_not_offered).
WORD = r"[A-Za-z0-9_.-]{1,63}"
ALONE = ["besteffort", "desktop_computing", "idempotent", "no_quotas"]
SHAPES = {
    "deploy": (r"(standby)?", "deploy or deploy=standby"),
    "cosystem": (r"(standby)?", "cosystem or cosystem=standby"),
    "noop": (r"(standby)?", "noop or noop=standby"),
    "container": (rf"({WORD})?", "container or container=NAME"),
    "inner": (WORD, "inner=NAME or inner=JOB_ID"),
    "placeholder": (WORD, "placeholder=NAME"),
    "allowed": (WORD, "allowed=NAME"),
    "timesharing": (r"(\*|user),(\*|name)|(\*|name),(\*|user)", "timesharing=user,name with * for either word"),
    "token": (rf"{WORD}=[1-9][0-9]{{0,8}}", "token:NAME=COUNT"),
    "state": (r"permissive", "state=permissive"),
    "assign": (r"\w+(:.+)?", "assign=FUNCTION or assign=FUNCTION:ARGUMENTS"),
    "find": (r"\w+(:.+)?", "find=FUNCTION or find=FUNCTION:ARGUMENTS"),
    "constraints": (
        r"[1-7]+/([01]?\d|2[0-3]):[0-5]\d/\d+(:[0-5]\d)?(/\d{4}-\d\d-\d\d(/\d+)?)?",
        "constraints=DAYS/HH:MM/HOURS",
    ),
}
DATES = ["postpone", "deadline", "expire"]

not_offered = settings("types_not_offered", ["assign", "find", "constraints"])
dates = {}
for kind in job.types:
    name, separator, argument = kind.partition(":" if kind.startswith("token:") else "=")
    if name in not_offered:
        refuse(f"job type {name} is not offered on this cluster")
    elif name in ALONE:
        if separator:
            refuse(f"job type '{kind}' takes no argument, write -t {name}")
    elif name in SHAPES:
        shape, usage = SHAPES[name]
        if (separator and not argument) or not matches(shape, argument):
            refuse(f"job type '{kind}' is not complete or not valid, write -t {usage}")
    elif name in DATES:
        try:
            dates[name] = read_date(argument)
        except ValueError:
            refuse(f"job type '{kind}' needs a date, write -t '{name}=YYYY-MM-DD hh:mm:ss'")
    elif name not in settings("extra_types", []):
        known = sorted({*ALONE, *SHAPES, *DATES} - set(not_offered))
        refuse(f"unknown job type '{kind}', known are {', '.join(known)}")

for name in ("deadline", "expire"):
    if name in dates and dates[name] <= site.now():
        refuse(f"the date of job type {name} is past, give a later one")
if "postpone" in dates and "deadline" in dates and dates["postpone"] >= dates["deadline"]:
    refuse("the job is postponed beyond its deadline, give an earlier postpone or a later deadline")
# mypy: ignore-errors
