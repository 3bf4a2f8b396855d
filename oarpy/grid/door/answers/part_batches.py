"""Many queued parts of a broker, made by a few statements; an error of one part does not concern the others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from oarpy.client.rendering import one_line
from oarpy.grid.calls.json_lines import DoorError, PartAnswer
from oarpy.grid.calls.parts import GridPart, PreparedPart
from oarpy.grid.calls.table import CallRefused, PrepareAll
from oarpy.grid.door.answers import part_submission
from oarpy.grid.door.call_context import CallContext
from oarpy.model.errors import OarpyError, UsageError
from oarpy.store.grid import door_parts
from oarpy.store.grid.door_parts import NewDoorPart

_LONGEST = 400
"""Letters of a reason."""


def prepare_all(context: CallContext, call: PrepareAll) -> list[PartAnswer]:
    """Answer ``prepare_all``, in the order of the parts."""
    wanted = [(entry.transaction, entry.part) for entry in call.parts]
    refused = _refused(context, wanted)
    possible = [place for place in range(len(wanted)) if place not in refused]
    jobs = part_submission.submit_all(context, [wanted[place][1] for place in possible])
    answers = {place: _refusal(error) for place, error in refused.items()}
    new = []
    for place, job in zip(possible, jobs, strict=True):
        transaction, part = wanted[place]
        if isinstance(job, OarpyError):
            answers[place] = _refusal(job)
            continue
        answers[place] = PartAnswer(prepared=PreparedPart(str(job)))
        walltime = part_submission.walltime_of(part.request)
        new.append(NewDoorPart(part.name, transaction, job, part.kind, walltime))
    door_parts.add(context.connection, context.broker, new, call.ttl)
    return [answers[place] for place in range(len(wanted))]


def _refused(context: CallContext, wanted: Sequence[tuple[str, GridPart]]) -> Mapping[int, OarpyError]:
    """Return why parts cannot be made, apart from their requests, by their places."""
    states = door_parts.transaction_states(context.connection, context.broker, (name for name, _ in wanted))
    known = set(door_parts.named(context.connection, context.broker, [part.name for _, part in wanted]))
    refusals: dict[int, OarpyError] = {}
    for place, (transaction, part) in enumerate(wanted):
        if states[transaction] != "Prepared":
            state = states[transaction].lower()
            refusals[place] = CallRefused(f"transaction '{transaction}' is {state}", hint="nothing was prepared")
        elif part.kind != "queued":
            refusals[place] = UsageError(f"part '{part.name}' of kind {part.kind} among many", hint="prepare it alone")
        elif part.name in known:
            refusals[place] = CallRefused(f"there is a part '{part.name}' already", hint="names of parts are used once")
        known.add(part.name)
    return refusals


def _refusal(error: OarpyError) -> PartAnswer:
    message, hint = one_line(error.message)[:_LONGEST], one_line(error.hint)
    return PartAnswer(refused=DoorError(error.code, message, hint, error.exit_status))
