"""`cuda-sim run` and signals: the program receives them, and does not outlive the command."""

import os
import pathlib
import signal
import subprocess
import sys
import time

import pytest

from commands import COMMAND

# Prints its process, then the signals that it receives; ends when there were as many as named, or after a minute.
PROGRAM = """
import os, signal, sys, time
names, received = sys.argv[1:], []
def receive(number, frame):
    received.append(number)
    os.write(1, signal.Signals(number).name.encode() + b"\\n")
for name in names:
    signal.signal(getattr(signal, name), receive)
print(os.getpid(), os.getppid(), flush=True)
signal.alarm(60)
while not names or len(received) < len(names):
    time.sleep(0.02)
sys.exit(7)
"""

ASKS_TO_END = "import os, signal; os.kill(os.getppid(), signal.SIGTERM); signal.alarm(60); signal.pause()"


def start(*names, **more):
    run = [COMMAND, "run", "--", sys.executable, "-c", PROGRAM, *names]
    process = subprocess.Popen(run, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **more)
    own, parent = map(int, process.stdout.readline().split())
    assert parent == process.pid
    return process, own


def is_alive(process):
    """Returns whether a process runs. One that ended and was not waited for does not."""
    try:
        return pathlib.Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


def ends(process):
    for _ in range(600):
        if not is_alive(process):
            return True
        time.sleep(0.05)
    os.kill(process, signal.SIGKILL)
    return False


def test_a_program_does_not_outlive_the_command():
    command, program = start()
    command.kill()
    assert command.wait(timeout=60) == -signal.SIGKILL
    assert ends(program)


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2"])
def test_signals_are_passed_on(name):
    """The program decides what a signal does. Its exit status is the command's."""
    command, program = start(name)
    command.send_signal(getattr(signal, name))
    out, errors = command.communicate(timeout=60)
    assert (out, command.returncode) == (name + "\n", 7), (out, errors)
    assert ends(program)


def test_a_signal_that_ends_the_program(tmp_path):
    command, program = start("SIGUSR1")
    command.terminate()
    _, errors = command.communicate(timeout=60)
    assert command.returncode == 128 + signal.SIGTERM and "ended by signal 15" in errors, errors
    assert ends(program)
    # What the command keeps in a temporary folder is removed then, too.
    run = [COMMAND, "run", f"--report={tmp_path}/report.json", "--", sys.executable, "-c", ASKS_TO_END]
    kept = tmp_path / "kept"
    kept.mkdir()
    done = subprocess.run(run, timeout=60, capture_output=True, text=True, env={**os.environ, "TMPDIR": str(kept)})
    assert done.returncode == 128 + signal.SIGTERM and not list(kept.iterdir()), done.stderr


def test_the_terminal_interrupts_both_once():
    """The kernel sends the interrupt of a terminal to the whole group. The program receives it once."""
    controller, terminal = os.openpty()

    def take_terminal():
        import fcntl
        import termios

        os.setsid()
        fcntl.ioctl(terminal, termios.TIOCSCTTY, 0)

    command, _ = start("SIGINT", "SIGUSR1", stdin=terminal, preexec_fn=take_terminal)
    os.write(controller, b"\x03")
    assert command.stdout.readline() == "SIGINT\n"
    command.send_signal(signal.SIGUSR1)
    out, errors = command.communicate(timeout=60)
    assert (out, command.returncode) == ("SIGUSR1\n", 7), (out, errors)
    os.close(controller)
    os.close(terminal)


def test_masks_and_ignored_signals_are_inherited():
    """The command blocks signals for itself alone; what the user ignores stays ignored."""
    code = (
        "import signal, sys; "
        "print(sorted(signal.pthread_sigmask(signal.SIG_BLOCK, [])), signal.getsignal(signal.SIGHUP) == signal.SIG_IGN)"
    )
    run = [COMMAND, "run", "--", sys.executable, "-c", code]

    def prepare():
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)

    done = subprocess.run(run, capture_output=True, text=True, timeout=60, preexec_fn=prepare)
    assert (done.returncode, done.stdout) == (0, "[] True\n"), done.stderr
