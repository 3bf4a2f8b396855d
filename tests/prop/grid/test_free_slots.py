"""What is held over time, swept once, is what looking at all holders at each instant finds."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from oarpy.grid.door.answers.free_slots import _Held, _taken

HELD = st.builds(
    lambda begin, length, bits: _Held(begin, begin + length, bits),
    st.integers(0, 20), st.integers(1, 15), st.integers(1, 255),
)  # fmt: skip


@given(st.lists(HELD, max_size=12), st.integers(0, 15), st.integers(1, 25))
def test_a_sweep_finds_what_holds_at_each_instant(held: list[_Held], begin: int, length: int) -> None:
    inside = [one for one in held if one.begin < begin + length and begin < one.end]
    found = list(_taken(inside, begin, begin + length))
    assert found[0][0] == begin
    for instant in range(begin, begin + length):
        taken = 0
        for one in held:
            if one.begin <= instant < one.end:
                taken |= one.bits
        assert [bits for since, bits in found if since <= instant][-1] == taken
