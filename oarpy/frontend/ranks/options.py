"""The command line of ``oarsrun -n`` inside a job, read without a library: a step is to start at once."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

MOST = 4096
"""Ranks of a step, cores of a rank, ranks on a node."""

_VALUES = {
    "-n": "ranks",
    "--processes": "ranks",
    "--cpus-per-task": "cores",
    "--ntasks-per-node": "on_node",
    "-j": "job",
    "--job": "job",
}
_FLAGS = {
    "--overcommit": "overcommit",
    "--pmix": "pmix",
    "--no-prefix": "plain",
    "-J": "as_json",
    "--json": "as_json",
}


class Wish:
    """The ranks that are wanted: their number, the cores of each, and the most on a node (0: no limit).

    ``overcommit``: with more ranks than there is room for, cores are used again.
    """

    def __init__(self, ranks: int = 1, cores: int = 1, on_node: int = 0, *, overcommit: bool = False) -> None:
        self.ranks = ranks
        self.cores = cores
        self.on_node = on_node
        self.overcommit = overcommit


class Call:
    """A call of ``oarsrun``: the ranks, the program with its arguments, the job it names, the form of the output.

    ``pmix``: ``prterun`` is to start them.
    """

    def __init__(self, wish: Wish, words: list[str], job: str, *, plain: bool, as_json: bool, pmix: bool) -> None:
        self.wish = wish
        self.words = words
        self.job = job
        self.plain = plain
        self.as_json = as_json
        self.pmix = pmix


def read_call(arguments: Sequence[str]) -> Call | None:
    """Return the call, None without ``-n`` or if anything is wrong with it: the command of the server tells then.

    >>> call = read_call(["-n4", "--cpus-per-task=2", "--", "./a.out", "-n"])
    >>> (call.wish.ranks, call.wish.cores, call.words)
    (4, 2, ['./a.out', '-n'])
    >>> read_call(["-n", "0", "true"])
    """
    given: dict[str, str] = {}
    rest = list(arguments)
    while rest and rest[0].startswith("-"):
        word = rest.pop(0)
        if word == "--":
            break
        name, value = _parts(word)
        if name in _FLAGS and value is None:
            given[_FLAGS[name]] = "1"
        elif name in _VALUES and (value is not None or rest):
            given[_VALUES[name]] = rest.pop(0) if value is None else value
        else:
            return None
    numbers = [_number(given.get(name, usual)) for name, usual in (("ranks", ""), ("cores", "1"), ("on_node", "4096"))]
    if not all(numbers) or not any(word.strip() for word in rest[:1]):
        return None
    wish = Wish(numbers[0], numbers[1], numbers[2] if "on_node" in given else 0, overcommit="overcommit" in given)
    plain, as_json, pmix = (flag in given for flag in ("plain", "as_json", "pmix"))
    return Call(wish, rest, given.get("job", ""), plain=plain, as_json=as_json, pmix=pmix)


def _parts(word: str) -> tuple[str, str | None]:
    """Return the option and the value in the same word."""
    if word.startswith("--"):
        name, is_given, value = word.partition("=")
        return name, value if is_given else None
    return word[:2], word[2:] or None


def _number(text: str) -> int:
    """Return the number, 0 if it is none or out of range."""
    number = int(text) if text.isascii() and text.isdigit() and len(text) < 6 else 0
    return number if number <= MOST else 0
