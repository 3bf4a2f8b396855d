"""Jobs from Python: submit, wait, ask why, read outputs; and an executor for :mod:`concurrent.futures`.

The module needs the standard library and the commands ``oarsub``, ``oarstat`` and ``oardel``, which it calls with
``--json``. So it has the rights of its user and works wherever these commands do::

    from oarpy.jobs import submit

    job = submit("./train.sh", resources="/nodes=2,walltime=1:0:0", name="train")
    if job.wait() == "Terminated" and job.exit_code == 0:
        print(job.output())

All calls raise :class:`CommandFailed` with the line that the command printed.
"""

from __future__ import annotations

import json
import os
import pickle
import shlex
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

__all__ = [
    "CommandFailed",
    "Job",
    "JobExecutor",
    "NotFinished",
    "dry_run",
    "find",
    "submit",
    "submit_array",
    "submit_batch",
    "wait_for",
]

ENDED = frozenset({"Terminated", "Error"})
"""The states of a job that is over."""

_SHORTEST_LOOK = 0.1
_LONGEST_LOOK = 5.0
"""Seconds between two looks at jobs that are waited for; the pause grows from the first to the second."""
_IDS_A_CALL = 1000

Document: TypeAlias = "Mapping[str, Any]"
Result = TypeVar("Result")


class CommandFailed(Exception):
    """A command ended with another status than 0.

    ``status`` is that status: 2 a wrong request, 3 refused by a rule, 4 not found, 5 not allowed, 6 unreachable.
    """

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


class NotFinished(Exception):
    """A job of an executor ended without a result; the text says how, and what it wrote on standard error."""


@dataclass(frozen=True, slots=True)
class Job:
    """A job by its id. Each question is asked anew, so that the answer is that of this moment."""

    id: int

    @property
    def state(self) -> str:
        """The state, as ``oarstat -s`` has it: ``Waiting``, ``Running``, ``Terminated``, ``Error``, ..."""
        return _states([self.id])[self.id]

    @property
    def description(self) -> Document:
        """Everything that ``oarstat --json`` tells of the job."""
        return dict(_asked("oarstat", "--full", "--job", str(self.id))[str(self.id)])

    @property
    def exit_code(self) -> int | None:
        """The exit code of the program; minus the number of the signal that killed it; None before its end."""
        status = self.description["exit_code"]
        return None if status is None else os.waitstatus_to_exitcode(status)

    def wait(self, timeout: float | None = None) -> str:
        """Wait for the end and return the state; raise :class:`TimeoutError` after ``timeout`` seconds."""
        return wait_for([self], timeout)[self]

    def why(self) -> str:
        """Return why the job waits and when it should start, a sentence a line; of others, what they do."""
        return "\n".join(self.why_details()["sentences"])

    def why_details(self) -> Document:
        """Return the document of ``oarstat --why --json``."""
        return dict(_asked("oarstat", "--why", str(self.id)))

    def output(self) -> str:
        """Return what the program wrote on standard output so far."""
        return self._file("stdout_file")

    def errors(self) -> str:
        """Return what the program wrote on standard error so far."""
        return self._file("stderr_file")

    def efficiency(self) -> Document:
        """Return what the job used of what it held, as ``oarstat --efficiency --json`` tells it."""
        (found,) = _asked("oarstat", "--efficiency", str(self.id))
        return dict(found)

    def cancel(self) -> None:
        """Delete the job. One that is over stays as it is."""
        if self.state not in ENDED:
            _call("oardel", str(self.id))

    def _file(self, key: str) -> str:
        described = self.description
        path = Path(str(described["launchingDirectory"]), str(described[key]))
        return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""


def submit(command: str | Sequence[str], **options: Any) -> Job:
    """Submit a job and return it.

    ``command`` is a line for the shell, or a program with its arguments. ``options`` are those of ``oarsub`` by their
    long words, with ``_`` for ``-``: ``name``, ``queue``, ``project``, ``directory``, ``stdout``, ``hold`` (true or
    false) and so on. ``resources`` is a request, or several alternatives; ``properties`` a filter; ``types`` a list;
    ``after`` jobs, or ids, that have to end first.
    """
    return Job(int(_asked("oarsub", *_words(options), "--", *_command(command))["job_id"]))


def submit_array(
    command: str | Sequence[str], size: int | None = None, parameters: Iterable[str] = (), **options: Any
) -> list[Job]:
    """Submit an array of ``size`` jobs, or one job for each line of arguments in ``parameters``."""
    lines = list(parameters)
    if not lines:
        return _jobs(_asked("oarsub", "--array", str(size), *_words(options), "--", *_command(command)))
    with tempfile.NamedTemporaryFile("w", encoding="utf-8", prefix="oarpy-array-") as file:
        file.write("".join(f"{line or chr(34) * 2}\n" for line in lines))
        file.flush()
        return _jobs(_asked("oarsub", "--array-param-file", file.name, *_words(options), "--", *_command(command)))


def submit_batch(requests: Iterable[Mapping[str, Any]]) -> list[Job]:
    """Submit different jobs in one call, all or none. A request has ``command`` and the options of :func:`submit`."""
    lines = []
    for request in requests:
        options = {name: value for name, value in request.items() if name != "command"}
        lines.append(shlex.join([*_words(options), "--", *_command(request["command"])]))
    printed = _call("oarsub", "--batch", "-", text="".join(f"{line}\n" for line in lines))
    return [Job(int(line.partition("=")[2])) for line in printed.splitlines() if line.startswith("OAR_JOB_ID=")]


def dry_run(command: str | Sequence[str], **options: Any) -> Document:
    """Return what would become of a submission, as ``oarsub --dry-run --json`` tells it. Nothing is submitted."""
    done = _run("oarsub", "--dry-run", "--json", *_words(options), "--", *_command(command))
    if done.returncode not in (0, 3) or not done.stdout:
        raise _failure("oarsub", done)
    return dict(json.loads(done.stdout))


def find(*selectors: str | int) -> list[Job]:
    """Return the jobs that selectors name: ids, ``"12-20"``, ``"last"``, ``"@name"``, ``"state:Running"``."""
    printed = _call("oarstat", "--format", "ids", *map(str, selectors))
    return [Job(int(line)) for line in printed.split()]


def wait_for(jobs: Iterable[Job], timeout: float | None = None) -> dict[Job, str]:
    """Wait until all jobs are over and return their states; raise :class:`TimeoutError` after ``timeout`` seconds."""
    until = None if timeout is None else time.monotonic() + timeout
    states: dict[Job, str] = dict.fromkeys(jobs, "")
    pause = _SHORTEST_LOOK
    while left := [job for job, state in states.items() if state not in ENDED]:
        found = _states([job.id for job in left])
        states |= {job: found[job.id] for job in left}
        if all(state in ENDED for state in states.values()):
            break
        if until is not None and time.monotonic() + pause > until:
            late = sum(state not in ENDED for state in states.values())
            raise TimeoutError(f"{late} of {len(states)} jobs are not over after {timeout:g} s")
        time.sleep(pause)
        pause = min(2 * pause, _LONGEST_LOOK)
    return states


class JobExecutor(Executor):
    """Runs calls of Python as jobs, with the interface of :mod:`concurrent.futures`.

    Functions, arguments and results are pickled into ``directory``, which the nodes have to see, too. The function
    stands in a module that can be imported there; with cloudpickle installed it may be any, as those of a notebook.
    ``options`` are those of :func:`submit`, for every job. Cancelling a future deletes its job, also one that runs.
    """

    def __init__(self, directory: str | os.PathLike[str] = ".", **options: Any) -> None:
        self._directory = Path(tempfile.mkdtemp(prefix="oarpy-calls-", dir=Path(directory).resolve()))
        self._options = {"name": "call", **options}
        self._running: dict[Job, tuple[Future[Any], Path]] = {}
        self._changed = threading.Condition()
        self._is_shut = False
        self._watcher: threading.Thread | None = None

    def submit(self, fn: Callable[..., Result], /, *args: Any, **kwargs: Any) -> Future[Result]:
        """Submit a call as a job. Raises ``RuntimeError`` after :meth:`shutdown`."""
        with self._changed:
            if self._is_shut:
                raise RuntimeError("the executor is shut down")
            descriptor, name = tempfile.mkstemp(prefix="call-", dir=self._directory)
            with open(descriptor, "wb") as file:
                pickle.dump(sys.path, file)
                _pickler().dump((fn, args, kwargs), file)
            command = [sys.executable, "-m", "oarpy.jobs", name]
            files = {"stdout": f"{name}.out", "stderr": f"{name}.err"}
            job = submit(command, directory=str(self._directory), **{**self._options, **files})
            future = _JobFuture[Result](job)
            self._running[job] = (future, Path(name))
            if self._watcher is None:
                self._watcher = threading.Thread(target=self._watch, daemon=True)
                self._watcher.start()
            self._changed.notify()
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Take no more calls; ``wait`` until all are done, after which their files are removed."""
        with self._changed:
            self._is_shut = True
            left = [future for future, _ in self._running.values()]
            self._changed.notify()
        if cancel_futures:
            for future in left:
                future.cancel()
        if wait:
            if self._watcher is not None:
                self._watcher.join()
            shutil.rmtree(self._directory, ignore_errors=True)

    def _watch(self) -> None:
        """Finish futures as their jobs end, until the executor is shut and nothing runs."""
        pause = _SHORTEST_LOOK
        while True:
            with self._changed:
                while not self._running and not self._is_shut:
                    self._changed.wait()
                if not self._running:
                    return
                jobs = list(self._running)
            ended = self._ended(jobs)
            for job, state in ended.items():
                with self._changed:
                    future, path = self._running.pop(job)
                _finish(future, job, state, path)
            pause = _SHORTEST_LOOK if ended else min(2 * pause, _LONGEST_LOOK)
            with self._changed:
                if self._running:
                    self._changed.wait(pause)

    def _ended(self, jobs: Sequence[Job]) -> dict[Job, str]:
        try:
            states = _states([job.id for job in jobs])
        except CommandFailed as failure:
            if failure.status != 6:  # away for a while: asked again
                return dict.fromkeys(jobs, str(failure))
            return {}
        return {job: states[job.id] for job in jobs if states[job.id] in ENDED}


class _JobFuture(Future[Result]):
    """A future whose cancellation deletes its job."""

    def __init__(self, job: Job) -> None:
        super().__init__()
        self.job = job

    def cancel(self) -> bool:
        if self.done():
            return self.cancelled()
        self.job.cancel()
        return super().cancel()


def _finish(future: Future[Any], job: Job, state: str, path: Path) -> None:
    if not future.set_running_or_notify_cancel():
        return
    result = path.with_name(f"{path.name}.result")
    try:
        is_value, value = pickle.loads(result.read_bytes())
    except Exception as error:
        written = path.with_name(f"{path.name}.err")
        text = written.read_text(errors="replace")[-2000:] if written.exists() else ""
        failure = NotFinished(f"job {job.id} ended as {state} without a result ({error})\n{text}".rstrip())
        future.set_exception(failure)
        return
    if is_value:
        future.set_result(value)
    else:
        future.set_exception(value)


def _pickler() -> Any:
    """Return cloudpickle, which takes functions of any place, or else pickle."""
    try:
        return import_module("cloudpickle")
    except ModuleNotFoundError:
        return pickle


def _run_call(name: str) -> None:
    """Run the call that a file holds, inside of its job, and write its result beside it at once."""
    with open(name, "rb") as file:
        sys.path[:] = pickle.load(file)
        function, arguments, named = pickle.load(file)
    try:
        outcome = (True, function(*arguments, **named))
    except Exception as error:
        outcome = (False, error)
    draft = f"{name}.{os.getpid()}"
    with open(draft, "wb") as file:
        pickle.dump(outcome, file)
    os.replace(draft, f"{name}.result")


_WORDS = {"resources": "--resource", "types": "--type", "properties": "--property"}
"""Options by names in the plural: most may be given several times."""


def _words(options: Mapping[str, Any]) -> list[str]:
    """Return options as the words of ``oarsub``."""
    words = []
    for name, value in options.items():
        word = _WORDS.get(name, f"--{name.replace('_', '-')}")
        if value is None or value is False:
            continue
        if value is True:
            words.append(word)
            continue
        several = [value] if isinstance(value, str | int | float | Job) else list(value)
        for one in several:
            words += [word, str(one.id if isinstance(one, Job) else one)]
    return words


def _command(command: str | Sequence[str]) -> list[str]:
    return [command] if isinstance(command, str) else [shlex.join(command)]


def _jobs(document: Document) -> list[Job]:
    return [Job(int(job)) for job in document["job_ids"]]


def _states(ids: Sequence[int]) -> dict[int, str]:
    found: dict[int, str] = {}
    for begin in range(0, len(ids), _IDS_A_CALL):
        part = ids[begin : begin + _IDS_A_CALL]
        document = _asked("oarstat", "--state", *map(str, part))
        found |= {int(job): str(state) for job, state in document.items()}
    return found


def _asked(command: str, *words: str) -> Any:
    place = words.index("--") if "--" in words else len(words)
    return json.loads(_call(command, *words[:place], "--json", *words[place:]))


def _call(command: str, *words: str, text: str = "") -> str:
    done = _run(command, *words, text=text)
    if done.returncode:
        raise _failure(command, done)
    return done.stdout


def _run(command: str, *words: str, text: str = "") -> subprocess.CompletedProcess[str]:
    beside = Path(sys.executable).with_name(command)
    program = str(beside) if beside.exists() else command
    try:
        return subprocess.run([program, *words], input=text, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise CommandFailed(f"{command} is not on this machine's PATH", 127) from None


def _failure(command: str, done: subprocess.CompletedProcess[str]) -> CommandFailed:
    lines = (done.stderr or done.stdout).strip().splitlines()
    return CommandFailed(lines[-1] if lines else f"{command} ended with {done.returncode}", done.returncode)


if __name__ == "__main__":
    _run_call(sys.argv[1])
