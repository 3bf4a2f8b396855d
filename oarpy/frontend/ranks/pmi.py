"""PMI-1: what programs of MPI ask the process that started them, answered for the ranks of a step.

A program sends lines of ``key=value``. It puts values, which others get after a barrier that all ranks have entered.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

_LONGEST_NAME, _LONGEST_KEY, _LONGEST_VALUE = 256, 64, 1024
_MAPPING = "PMI_process_mapping"
"""Key of the value that tells which ranks share a node."""


def read_line(line: str) -> dict[str, str]:
    """Return the words of a line; the last value may have blanks.

    >>> read_line("cmd=put kvsname=s key=k value=a=b")
    {'cmd': 'put', 'kvsname': 's', 'key': 'k', 'value': 'a=b'}
    """
    return dict(word.split("=", 1) for word in line.split() if "=" in word)


def process_mapping(nodes: Sequence[int]) -> str:
    """Return the nodes of all ranks as blocks of (first node, number of nodes, ranks on each).

    >>> process_mapping([0, 0, 1, 1, 2])
    '(vector,(0,2,2),(2,1,1))'
    """
    blocks: list[list[int]] = []
    runs: list[list[int]] = []
    for node in nodes:
        if runs and runs[-1][0] == node:
            runs[-1][1] += 1
        else:
            runs.append([node, 1])
    for node, count in runs:
        if blocks and blocks[-1][2] == count and sum(blocks[-1][:2]) == node:
            blocks[-1][1] += 1
        else:
            blocks.append([node, 1, count])
    return f"(vector,{','.join('({},{},{})'.format(*block) for block in blocks)})"


class PmiSpace:
    """The values and the barrier of the ranks of one step; ``nodes`` has the number of each rank's node."""

    def __init__(self, name: str, nodes: Sequence[int]) -> None:
        self._name = name
        self._size = len(nodes)
        self._entered: set[int] = set()
        self._values: dict[str, str] = {}
        mapping = process_mapping(nodes)
        if len(mapping) <= _LONGEST_VALUE:
            self._values[_MAPPING] = mapping
        self.aborted: int | None = None
        """The exit status with which a rank has ended all of them."""

    def answers(self, rank: int, line: str) -> list[tuple[int, str]]:
        """Return the answers to a line of a rank, each with the rank that it is for."""
        words = read_line(line)
        command = words.get("cmd", words.get("mcmd", ""))
        if command == "barrier_in":
            self._entered.add(rank)
            if len(self._entered) < self._size:
                return []
            self._entered.clear()
            return [(other, "cmd=barrier_out\n") for other in range(self._size)]
        if command == "abort":
            code = words.get("exitcode", "")
            self.aborted = int(code) & 0xFF if code.isdigit() else 1
            return []
        answer = self._answer(command, words)
        return [(rank, f"cmd={answer}\n")] if answer else []

    def _answer(self, command: str, words: dict[str, str]) -> str:
        fixed = {
            "init": "response_to_init pmi_version=1 pmi_subversion=1 rc=0",
            "get_maxes": f"maxes kvsname_max={_LONGEST_NAME} keylen_max={_LONGEST_KEY} vallen_max={_LONGEST_VALUE}",
            "get_appnum": "appnum appnum=0",
            "get_my_kvsname": f"my_kvsname kvsname={self._name}",
            "get_universe_size": f"universe_size size={self._size}",
            "finalize": "finalize_ack",
            "spawn": "spawn_result rc=-1 msg=not_supported",
            "publish_name": "publish_result rc=-1 msg=not_supported",
            "unpublish_name": "unpublish_result rc=-1 msg=not_supported",
            "lookup_name": "lookup_result rc=-1 msg=not_supported",
        }
        if command == "put":
            return self._put(words.get("key", ""), words.get("value", ""))
        if command == "get":
            value = self._values.get(words.get("key", ""))
            return (
                "get_result rc=-1 msg=unknown_key value=unknown" if value is None else f"get_result rc=0 value={value}"
            )
        return fixed.get(command, "")

    def _put(self, key: str, value: str) -> str:
        if not key or len(key) > _LONGEST_KEY or len(value) > _LONGEST_VALUE:
            return "put_result rc=-1 msg=too_long"
        self._values[key] = value
        return "put_result rc=0 msg=success"
