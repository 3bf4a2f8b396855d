"""The resources of a job, from the file that it gets, grouped by a property and put into lines of the user's form."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from oarpy.client.caller import Caller
from oarpy.client.rendering import natural
from oarpy.model.errors import NotFound, UsageError

Resource = Mapping[str, str]

VARIABLE = "OAR_RESOURCE_PROPERTIES_FILE"
_LARGEST = 8 << 20
_BETWEEN = re.compile(r"' , (?=\w+ = ')")
_NAME = re.compile(r"\w+")


def read_resources(text: str, source: str) -> list[dict[str, str]]:
    """Return the properties of each resource in ``text``, which came from ``source``; raise :class:`UsageError`.

    >>> read_resources("core = '3' , host = 'n1'", "file")
    [{'core': '3', 'host': 'n1'}]
    """
    resources = [_properties(line.strip()) for line in text.split("\n") if line.strip()]
    if not all(resources):
        raise UsageError(f"{source} holds a line without properties", hint="lines like: core = '3' , host = 'n1'")
    return resources


def _properties(line: str) -> dict[str, str]:
    if not line.endswith("'"):
        return {}
    parts = (part.partition(" = '") for part in _BETWEEN.split(line[:-1]))
    return {name: value for name, mark, value in parts if mark and _NAME.fullmatch(name)}


def read_from(caller: Caller, path: str | None) -> list[dict[str, str]]:
    """Return the resources in a file of the caller, ``-`` for the standard input, None for that of the present job."""
    if path == "-":
        content, source = caller.read_input(_LARGEST), "standard input"
    else:
        source = path or caller.environment.get(VARIABLE, "")
        if not source:
            raise UsageError(f"{VARIABLE} is not set: this is not inside a job", hint="-f names a file")
        content = caller.read_file(source, _LARGEST)
    if len(content) > _LARGEST:
        raise UsageError(f"{source} is larger than {_LARGEST >> 20} MiB")
    return read_resources(content.decode(errors="replace"), source)


def property_names(resources: Iterable[Resource]) -> list[str]:
    """Return the names of all properties."""
    return sorted({name for resource in resources for name in resource})


def grouped(resources: Sequence[Resource], key: str, wanted: Sequence[str]) -> list[tuple[tuple[str, ...], ...]]:
    """Return for each value of ``key``, in order, the values of each ``wanted`` property, each once and in order.

    A resource without the key is left out. Raises :class:`NotFound` for a property that no resource has.

    >>> grouped([{"host": "n10", "core": "2"}, {"host": "n9", "core": "11"}, {"host": "n9"}], "host", ["host", "core"])
    [(('n9',), ('11',)), (('n10',), ('2',))]
    """
    known = property_names(resources)
    for name in (key, *wanted):
        if name not in known:
            raise NotFound(
                f"no resource of the job has a property '{name[:80]}'", hint=", ".join(known) or "none has any"
            )
    groups: dict[str, list[Resource]] = {}
    for resource in resources:
        if key in resource:
            groups.setdefault(resource[key], []).append(resource)
    return [
        tuple(_distinct(resource[name] for resource in groups[value] if name in resource) for name in wanted)
        for value in sorted(groups, key=natural)
    ]


def lines(
    groups: Iterable[Sequence[Sequence[str]]], form: str | None, token: str = "%", separator: str = ","
) -> list[str]:
    """Return ``form`` for each group, its tokens replaced in turn by the lists of values; more than enough stay.

    Without a form the lists are separated by blanks.

    >>> lines([[["n1"], ["1", "2"]]], "host: % cores: %", separator="+"), lines([[["n1"], ["1", "2"]]], None)
    (['host: n1 cores: 1+2'], ['n1 1,2'])
    """
    result = []
    for group in groups:
        lists = [separator.join(values) for values in group]
        if form is None:
            result.append(" ".join(lists))
            continue
        parts = form.split(token)
        filled = [*lists[: len(parts) - 1], *[token] * (len(parts) - 1 - len(lists))]
        result.append(parts[0] + "".join(text + part for text, part in zip(filled, parts[1:], strict=True)))
    return result


def _distinct(values: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(set(values), key=natural))
