"""Resources and their properties as people read them."""

from __future__ import annotations

from datetime import datetime

from oarpy.client.rendering import local_date
from oarpy.store.platform.resources import PropertyValue, ResourceRow


def shown(value: PropertyValue) -> str:
    """Return a property's value as text: ``YES`` and ``NO`` for truth values, local dates, ``""`` for none."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "YES" if value else "NO"
    return local_date(value.timestamp()) if isinstance(value, datetime) else str(value)


def properties_of(resource: ResourceRow) -> dict[str, PropertyValue]:
    """Return every property, common properties first."""
    return {
        "resource_id": resource.resource_id,
        "type": resource.type,
        "network_address": resource.network_address,
        "state": resource.state,
        **resource.properties,
    }


def resource_json(resource: ResourceRow) -> dict[str, int | str | bool | None]:
    """Return every property, dates in epoch seconds."""
    return {name: value_json(value) for name, value in properties_of(resource).items()}


def value_json(value: PropertyValue) -> int | str | bool | None:
    """Return a property's value as JSON has it, dates in epoch seconds."""
    return int(value.timestamp()) if isinstance(value, datetime) else value
