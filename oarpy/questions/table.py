"""The questions of ``oarpy decide``, a row each: the kind of its file, and the function that answers it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from oarpy.model.plugins import PREDICTORS, names
from oarpy.model.typed_values import Misfit, from_exact_json, from_json, refuse
from oarpy.questions import cluster_answers, fields, grid_answers
from oarpy.questions.cluster_answers import Answer


@dataclass(frozen=True, slots=True)
class Question:
    """A question. If its numbers are ``exact``, they are read as the decimals of the file."""

    file: type[Any]
    answer: Callable[[Any], Answer]
    exact: bool = False


_PLUGGED = Question(fields.PredictRunFile, cluster_answers.answer_predict_run)
"""A prediction by a plug-in."""

QUESTIONS: Mapping[str, Question | Mapping[str, Question]] = {
    "admit": Question(fields.AdmitFile, cluster_answers.answer_admit),
    "coallocate": Question(fields.CoallocateFile, grid_answers.answer_coallocate),
    "compress": Question(fields.CompressFile, grid_answers.answer_compress),
    "map": Question(fields.MapFile, cluster_answers.answer_map),
    "offers": Question(fields.OffersFile, cluster_answers.answer_offers),
    "compose": Question(fields.ComposeFile, grid_answers.answer_compose, exact=True),
    "advance": Question(fields.AdvanceFile, cluster_answers.answer_advance),
    "predict": {
        **dict.fromkeys(
            ("walltime", "last2", "similar"), Question(fields.PredictRunFile, cluster_answers.answer_predict_run)
        ),
        "profile": Question(fields.PredictFramesFile, cluster_answers.answer_predict_frames),
        "rate": Question(fields.PredictRateFile, cluster_answers.answer_predict_rate),
    },
}
"""By ``ask``; a prediction by its ``predictor``."""


def answer(text: str) -> Answer:
    """Answer the question of a file. Raises :class:`UsageError`, which does not name the file, if it is none."""
    try:
        document = from_json(text, dict[str, Any])
        entry = _row(QUESTIONS, document, "ask")
        question = entry if isinstance(entry, Question) else _row(entry, document, "predictor")
        file = from_exact_json(text, question.file, pointed=False) if question.exact else from_json(text, question.file)
        reply: Answer = question.answer(file)
    except Misfit as misfit:
        raise misfit.error("file") from None
    return {key: plain(value) for key, value in reply.items()}


def _row(rows: Mapping[str, Any], document: Mapping[str, Any], key: str) -> Any:
    name = document.get(key)
    if key == "predictor" and isinstance(name, str) and name in names(PREDICTORS):
        return _PLUGGED
    if not isinstance(name, str) or name not in rows:
        problem = "is no question" if key in document else "is missing"
        refuse("file", key, name, problem, f"known: {', '.join(rows)}")
    return rows[name]


def plain(value: Any) -> Any:
    """Return numbers as JSON has them: whole numbers as integers, others in double precision."""
    match value:
        case dict():
            return {key: plain(content) for key, content in value.items()}
        case list() | tuple():
            return [plain(item) for item in value]
        case None | bool() | str():
            return value
        case _:
            return int(value) if value == int(value) else float(value)
