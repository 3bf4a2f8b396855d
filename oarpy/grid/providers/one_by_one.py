"""Clusters for which many parts are so many calls: a call for all makes one after the other."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from oarpy.grid.provider import CallRefused, GridPart, PreparedPart


class OneByOne(ABC):
    """What such a :class:`~oarpy.grid.provider.Provider` derives from. Each part has a key made from that of all."""

    @abstractmethod
    def prepare(self, key: str, transaction: str, part: GridPart, ttl: float) -> PreparedPart:
        """Make a part that cannot start, or freeze one."""

    def prepare_all(
        self, key: str, parts: Sequence[tuple[str, GridPart]], ttl: float
    ) -> Sequence[PreparedPart | CallRefused]:
        """Make queued parts; a silent cluster may have made the first ones."""
        return [self._prepared_or_refused(f"{key}:{part.name}", transaction, part, ttl) for transaction, part in parts]

    def _prepared_or_refused(
        self, key: str, transaction: str, part: GridPart, ttl: float
    ) -> PreparedPart | CallRefused:
        try:
            return self.prepare(key, transaction, part, ttl)
        except CallRefused as error:
            return error
