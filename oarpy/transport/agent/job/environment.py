"""The environment and the files that OAR gives to a job."""

from __future__ import annotations

import errno
import os
import re
import struct

from oarpy.transport.agent.job.processes import MARK, NODE, SECRET
from oarpy.transport.agent.job.spawning import PROFILE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from oarpy.transport.agent.job.account import Account
    from oarpy.transport.agent.statedir import StateDir
    from oarpy.wire.jobs import JobSpec

# Tags of the kernel's lists of rights (acl(5)).
_ACL_VERSION = 2
_OWNER, _USER, _GROUP, _MASK, _OTHERS, _NOBODY = 1, 2, 4, 16, 32, 0xFFFFFFFF
_NO_RIGHTS_HERE = frozenset({errno.ENOTSUP, errno.ENOSYS, errno.EINVAL})
"""Answers of file systems without such lists."""

_DEFAULT_PATH = "/usr/local/bin:/usr/bin:/bin"
_NODE_FILE_NAMES = ("OAR_NODEFILE", "OAR_NODE_FILE", "OAR_FILE_NODES", "OAR_RESOURCE_FILE")
_MAP_LINE = re.compile(r"(?P<host>[^ ]+) (?P<core>[0-9]+) (?P<size>[^ ]+) (?P<count>[0-9]{1,6})\Z")
_MOST_PROCESSES = 100_000
"""How many processes a job may map."""
_AFTER_PROFILES = {"BASH_ENV": PROFILE, "ENV": PROFILE, "PROMPT_COMMAND": f'. "{PROFILE}"'}
"""Variables by which shells read a file after their profiles: bash for scripts, sh and bash at a terminal."""
_STARTER_OF_MPI, _GRID_STARTER = "OMPI_MCA_plm_rsh_agent", "oargridsh"
_STARTERS_OF_MPI = {
    _STARTER_OF_MPI: "oarsh",
    "PRTE_MCA_plm_ssh_agent": "oarsh",
    "HYDRA_LAUNCHER": "ssh",
    "HYDRA_LAUNCHER_EXEC": "oarsh",
    "I_MPI_HYDRA_BOOTSTRAP": "ssh",
    "I_MPI_HYDRA_BOOTSTRAP_EXEC": "oarsh",
}
"""Variables that have ``mpirun`` of Open MPI, MPICH and Intel MPI reach the other nodes of a job."""
_HOST_FILES_OF_MPI = ("OMPI_MCA_orte_default_hostfile", "HYDRA_HOST_FILE")
_DIRECTORY_NAMES = ("OAR_WORKDIR", "OAR_O_WORKDIR", "OAR_WORKING_DIRECTORY")


def node_file(state: StateDir, key: str) -> str:
    """Return where the node file of a job is."""
    return f"{state.files}/{key}.nodes"


def properties_file(state: StateDir, key: str) -> str:
    """Return where the file with the properties of a job's resources is."""
    return f"{state.files}/{key}.properties"


def key_file(state: StateDir, key: str) -> str:
    """Return where the SSH key of a job is."""
    return f"{state.files}/{key}.key"


def grid_file(state: StateDir, key: str) -> str:
    """Return where the hosts of all components of a job on several clusters are."""
    return f"{state.files}/{key}.grid"


def map_file(state: StateDir, key: str) -> str:
    """Return where it is told which processes of a job run where."""
    return f"{state.files}/{key}.map"


def grid_map_file(state: StateDir, key: str) -> str:
    """Return where the same is, over all clusters of a job on several."""
    return f"{state.files}/{key}.gridmap"


def script_file(state: StateDir, key: str) -> str:
    """Return where the script of a job is, as it was submitted."""
    return f"{state.files}/{key}.script"


def write_script(state: StateDir, key: str, spec: JobSpec, account: Account) -> None:
    """Write the script of a job, if it has one, readable by its user alone. Raises ``OSError``."""
    if spec.script:
        write_for(account, script_file(state, key), spec.script)


def write_files(state: StateDir, key: str, spec: JobSpec, account: Account, *, replace: bool = True) -> None:
    """Write the files of a job, readable by its user alone; without ``replace`` only missing files.

    Raises ``OSError``.
    """
    contents = (
        (node_file(state, key), spec.nodes),
        (properties_file(state, key), spec.resources),
        (key_file(state, key), spec.private_key.splitlines()),
        (grid_file(state, key), spec.grid_hosts),
        (map_file(state, key), _processes(spec.process_map, spec.iterations)),
        (grid_map_file(state, key), _processes(spec.grid_map, spec.iterations)),
    )
    for path, lines in contents:
        if not lines:
            continue
        text = "".join(f"{line}\n" for line in lines)
        if replace:
            write_for(account, path, text)
        elif not os.path.exists(path):
            # Under another name first: another step must not read half of it.
            _replace(path, text, account)


def _processes(process_map: Sequence[str], iterations: int) -> list[str]:
    """Return a line ``process size host core iterations`` for each process, numbered from 0.

    Raises ``OSError`` for a map that is none.
    """
    lines: list[str] = []
    for line in process_map:
        found = _MAP_LINE.match(line)
        more = int(found["count"]) if found else 0
        if found is None or not 0 < more <= _MOST_PROCESSES - len(lines):
            raise OSError(errno.EINVAL, "this is no line of a map of processes", line[:100])
        host, core, size = found.group("host", "core", "size")
        lines += (f"{number} {size} {host} {core} {iterations}" for number in range(len(lines), len(lines) + more))
    return lines


def replace_files(state: StateDir, key: str, nodes: Sequence[str], resources: Sequence[str], account: Account) -> None:
    """Give a running job other nodes and resources to read.

    A process that has a file open reads the old one to its end. Raises ``OSError``.
    """
    for path, lines in ((properties_file(state, key), resources), (node_file(state, key), nodes)):
        _replace(path, "".join(f"{line}\n" for line in lines), account)


def _replace(path: str, text: str, account: Account) -> None:
    hidden = f"{path}.{os.getpid()}"
    write_for(account, hidden, text)
    os.rename(hidden, path)


def write_for(account: Account, path: str, text: str) -> None:
    """Write a file that only the job's user may read. Raises ``OSError``."""
    fd = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
    try:
        content = memoryview(text.encode(errors="surrogateescape"))
        while content:
            content = content[os.write(fd, content) :]
        if os.geteuid() == 0 and account.uid != 0:
            _let_read(fd, account)
    finally:
        os.close(fd)


def _let_read(fd: int, account: Account) -> None:
    """Let only the user of a job read a file; a file that the user could write could fill the disk."""
    entries = ((_OWNER, 6, _NOBODY), (_USER, 4, account.uid), (_GROUP, 0, _NOBODY), (_MASK, 4, _NOBODY))
    rights = b"".join(struct.pack("<HHI", *entry) for entry in (*entries, (_OTHERS, 0, _NOBODY)))
    try:
        os.setxattr(fd, "system.posix_acl_access", struct.pack("<I", _ACL_VERSION) + rights)
    except OSError as error:
        if error.errno not in _NO_RIGHTS_HERE:
            raise  # a full disk, above all
        os.fchown(fd, account.uid, account.gid)


def remove_files(state: StateDir, key: str) -> None:
    """Remove the files of a job that is forgotten."""
    notes = (state.step_note(key), state.session_pipe(key))
    for path in (
        node_file(state, key),
        properties_file(state, key),
        key_file(state, key),
        grid_file(state, key),
        map_file(state, key),
        grid_map_file(state, key),
        script_file(state, key),
        *notes,
    ):
        try:
            os.unlink(path)
        except FileNotFoundError:
            continue


def _with_last(path: str, directory: str) -> str:
    """Return a search path with ``directory`` at its end, behind the programs that the site has installed."""
    if directory in path.split(os.pathsep):
        return path
    return f"{path}{os.pathsep}{directory}" if path else directory


def job_environment(
    state: StateDir, key: str, spec: JobSpec, account: Account, mark: str, group: str, seen: Mapping[str, str]
) -> dict[str, str]:
    """Return a job's environment: the user's defaults, the submission's, OAR's, the job's variables; the last wins.

    ``group`` is the job's control group below the mount point, if it has one. ``seen`` names the GPUs it may see.
    """
    environment: dict[str, str] = {
        "PATH": _DEFAULT_PATH,
        "HOME": account.home,
        "SHELL": spec.shell or account.shell,
        **spec.environment,
    }
    inherited = environment.get(_NODE_FILE_NAMES[0])
    for name in _HOST_FILES_OF_MPI:
        if inherited and environment.get(name) == inherited:
            del environment[name]  # it belongs to the job that submitted this one
    environment.pop("SHLVL", None)
    environment.pop("OLDPWD", None)
    job, walltime, directory = str(spec.job), spec.walltime, spec.directory
    environment.update(
        USER=account.name,
        LOGNAME=account.name,
        PWD=directory,
        SUDO_COMMAND="OAR",
        OAR_JOBID=job,
        OAR_JOB_ID=job,
        OAR_USER=account.name,
        OAR_JOB_WALLTIME=f"{walltime // 3600}:{walltime % 3600 // 60}:{walltime % 60}",
        OAR_JOB_WALLTIME_SECONDS=str(walltime),
        OAR_JOB_NAME=spec.name,
        OAR_PROJECT_NAME=spec.project,
        OAR_STDOUT=os.path.join(directory, spec.stdout) if spec.stdout else "",
        OAR_STDERR=os.path.join(directory, spec.stderr) if spec.stderr else "",
    )
    environment.update(dict.fromkeys(_DIRECTORY_NAMES, directory))
    environment.update(dict.fromkeys(("OAR_ARRAYID", "OAR_ARRAY_ID"), str(spec.array_id or job)))
    environment.update(dict.fromkeys(("OAR_ARRAYINDEX", "OAR_ARRAY_INDEX"), str(spec.array_index or 1)))
    if group:
        environment["OAR_CPUSET"] = group
    if spec.nodes:
        environment.update(dict.fromkeys(_NODE_FILE_NAMES, node_file(state, key)))
    if spec.resources:
        environment["OAR_RESOURCE_PROPERTIES_FILE"] = properties_file(state, key)
    environment.pop("OAR_JOB_KEY_FILE", None)
    if spec.private_key:
        environment["OAR_JOB_KEY_FILE"] = key_file(state, key)
    for name, lines, path in (
        ("OAR_GRID_NODEFILE", spec.grid_hosts, grid_file),
        ("OAR_MAPFILE", spec.process_map, map_file),
        ("OAR_GRID_MAPFILE", spec.grid_map, grid_map_file),
    ):
        environment.pop(name, None)
        if lines:
            environment[name] = path(state, key)
    for name, value in _defaults(state, key, spec).items():
        environment.setdefault(name, value)
    environment.update(seen)
    environment.update(spec.variables)
    environment["PATH"] = _with_last(environment.get("PATH", ""), state.commands)
    environment.update({MARK: mark, NODE: state.root, SECRET: state.word_of(key)})
    return environment


def _defaults(state: StateDir, key: str, spec: JobSpec) -> dict[str, str]:
    """Return the variables of a job that its user may set otherwise."""
    # a broker whose job spans clusters says so by the variable for the program that starts others on them
    if spec.grid_hosts and spec.environment.get(_STARTER_OF_MPI) == _GRID_STARTER:
        starters = {name: starter.replace("oarsh", _GRID_STARTER) for name, starter in _STARTERS_OF_MPI.items()}
        return {**_AFTER_PROFILES, **starters, **dict.fromkeys(_HOST_FILES_OF_MPI, grid_file(state, key))}
    if len(set(spec.nodes)) <= 1:
        return _AFTER_PROFILES
    hosts = dict.fromkeys(_HOST_FILES_OF_MPI, node_file(state, key))
    return {**_AFTER_PROFILES, **_STARTERS_OF_MPI, **hosts}
