"""The text format of Prometheus: families of samples, each with help and type."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


@dataclass(frozen=True, slots=True)
class Family:
    """A metric: ``kind`` is gauge or counter; each sample has its labels and its value."""

    name: str
    kind: str
    meaning: str
    samples: tuple[tuple[Mapping[str, str], float], ...]

    def text(self) -> str:
        """Return the lines of the metric.

        >>> print(Family("jobs", "gauge", "jobs", (({"state": "Running"}, 3),)).text(), end="")
        # HELP jobs jobs
        # TYPE jobs gauge
        jobs{state="Running"} 3
        """
        lines = [f"# HELP {self.name} {_escaped(self.meaning)}\n", f"# TYPE {self.name} {self.kind}\n"]
        lines += [f"{self.name}{_labels(labels)} {value!r}\n" for labels, value in self.samples]
        return "".join(lines)


def exposition(families: Iterable[Family]) -> str:
    """Return the text of all metrics."""
    return "".join(family.text() for family in families)


def _labels(labels: Mapping[str, str]) -> str:
    parts = (f'{name}="{_quoted(value)}"' for name, value in labels.items())
    return "{" + ",".join(parts) + "}" if labels else ""


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n")


def _quoted(text: str) -> str:
    return _escaped(text).replace('"', '\\"')
