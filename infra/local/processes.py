"""Child processes that never outlive this one, however it ends.

A child gets a session of its own, so that Ctrl-C on the terminal reaches us alone and we decide in
which order things stop; and on Linux the kernel kills it when we die, `kill -9` included. That
signal is bound to the *thread* that started the child (prctl(2), PR_SET_PDEATHSIG), so one thread
starts them all and lives as long as the nursery.
"""

import contextlib
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import IO, Final

_LAUNCHER: Final = Path(__file__).with_name("launch.py")
_KILLED_WITHIN_SECONDS: Final = 10.0

_Job = tuple[Future["Child"], "Launch"]


class Launch:
    """What to run: the command, its whole environment, where, and where its output goes."""

    __slots__ = ("command", "descriptors", "folder", "output", "variables")

    def __init__(
        self,
        command: Sequence[str],
        *,
        variables: Mapping[str, str],
        folder: Path,
        output: IO[bytes] | int,
        descriptors: tuple[int, ...],
    ) -> None:
        self.command = list(command)
        self.variables = dict(variables)
        self.folder = folder
        self.output = output
        self.descriptors = descriptors


class Child:
    """One process and whatever it starts: signals go to its whole group."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self._lock = threading.Lock()

    @property
    def pid(self) -> int:
        """The process's id, which is its group's id too."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether it runs or is stopped; reaps it if it has ended."""
        with self._lock:
            return self._process.poll() is None

    @property
    def exit_code(self) -> int | None:
        """How it ended: negative for a signal, None while it lives."""
        with self._lock:
            return self._process.poll()

    def send(self, number: signal.Signals) -> None:
        """Signal the group; nothing happens if it has ended."""
        # Unreaped, a process keeps its id; under the lock it cannot become a stranger's.
        with self._lock:
            if self._process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(self._process.pid, number)

    def kill(self) -> None:
        """Kill the group, stopped or not, and wait until the process is gone."""
        self.send(signal.SIGKILL)
        self._process.wait(_KILLED_WITHIN_SECONDS)


class NurseryClosed(RuntimeError):
    """A child was asked for after `close`: the stack is stopping, so the asker stops too."""


class Nursery:
    """Starts children and kills those that are left when it is closed."""

    def __init__(self) -> None:
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._children: list[Child] = []
        self._lock = threading.Lock()
        self._open = True
        self._thread = threading.Thread(target=self._serve, name="nursery", daemon=True)
        self._thread.start()

    def start(
        self,
        command: Sequence[str],
        *,
        variables: Mapping[str, str],
        folder: Path,
        output: IO[bytes] | int,
        descriptors: tuple[int, ...] = (),
    ) -> Child:
        """Start `command` with exactly `variables` as its environment; stderr joins `output`.

        It inherits `descriptors` under their numbers, and no other.

        Raises:
            NurseryClosed: `close` was called; whoever starts children in a thread ends then.
        """
        future: Future[Child] = Future()
        launch = Launch(
            command, variables=variables, folder=folder, output=output, descriptors=descriptors
        )
        with self._lock:
            if not self._open:
                raise NurseryClosed
            self._jobs.put((future, launch))
        return future.result()

    def close(self) -> None:
        """Kill every child that still lives, and end."""
        with self._lock:
            if self._open:
                self._open = False
                self._jobs.put(None)
        self._thread.join()

    def _serve(self) -> None:
        while (job := self._jobs.get()) is not None:
            future, launch = job
            try:
                child = _start(launch)
            except OSError as error:
                future.set_exception(error)
                continue
            self._children = [other for other in self._children if other.alive]
            self._children.append(child)
            future.set_result(child)
        for child in self._children:
            child.kill()


def _start(launch: Launch) -> Child:
    # The launcher arms the signal and becomes the command. A `preexec_fn` would run Python between
    # fork and exec, in a process that has threads.
    command = [sys.executable, "-I", "-S", str(_LAUNCHER), str(os.getpid()), *launch.command]
    process = subprocess.Popen(
        command,
        env=launch.variables,
        cwd=launch.folder,
        stdin=subprocess.DEVNULL,
        stdout=launch.output,
        stderr=subprocess.STDOUT,
        pass_fds=launch.descriptors,
        start_new_session=True,
    )
    return Child(process)
