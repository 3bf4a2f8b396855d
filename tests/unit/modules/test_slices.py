"""What slices add is there, and is what the core takes it for."""

from __future__ import annotations

from pkgutil import resolve_name

from oarpy import slices
from oarpy.cluster_state.state_part import StatePart
from oarpy.modules.launcher.parts import Part
from oarpy.modules.registry import OPTIONAL, enabled_modules
from tests.harness.small_cluster import with_settings


def test_named_parts_are_parts() -> None:
    assert all(issubclass(part, StatePart) for part in slices.things(slices.STATE_PARTS))
    assert all(issubclass(part, Part) for part in slices.things(slices.LAUNCHER_PARTS))
    assert all(callable(check) for check in slices.things(slices.CONTRADICTIONS))


def test_modules_of_slices_bear_their_names() -> None:
    configuration = with_settings()
    assert {name: resolve_name(OPTIONAL[name])(configuration).name for name in slices.MODULES} == {
        name: name for name in slices.MODULES
    }


def test_modules_of_slices_run_where_a_setting_wants_them() -> None:
    wanted = with_settings(
        gateway={"socket": "/run/oarpy.sock"}, submission={"recurring_jobs_per_user": 3}, elastic={"most": 1}
    )
    assert slices.MODULES.keys() <= {*enabled_modules(wanted)}
    unwanted = with_settings(gateway={"socket": ""}, submission={"recurring_jobs_per_user": 0})
    assert slices.MODULES.keys().isdisjoint(enabled_modules(unwanted))
