# SPDX-License-Identifier: BSD-3-Clause
"""Commands and background processes; waiting with a deadline."""
import ctypes
import re
import shlex
import signal
import subprocess
import time

LIBC = ctypes.CDLL(None, use_errno=True)
PR_SET_PDEATHSIG = 1


class Failed(Exception):
    """What a check expected and what it saw."""


def sh(*argv, check=True, timeout=120, stdin=None):
    """Run a command (words, or one string to be split) and return what it printed."""
    words = shlex.split(argv[0]) if len(argv) == 1 else [str(a) for a in argv]
    done = subprocess.run(words, text=True, capture_output=True, timeout=timeout, input=stdin)
    if check and done.returncode:
        raise Failed(f"{shlex.join(words)}: exit code {done.returncode}\n"
                     f"{done.stdout}{done.stderr}".rstrip())
    return done.stdout


def wait_for(what, condition, timeout=60, step=0.05):
    """The first true answer of condition().  Deadlines are generous: the machine may be busy."""
    end = time.monotonic() + timeout
    while True:
        answer = condition()
        if answer:
            return answer
        if time.monotonic() > end:
            raise Failed(f"not within {timeout} s: {what}")
        time.sleep(step)


def die_with_parent():
    """Runs in the child: if we are killed there is nobody left to stop it."""
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


class Process:
    """A background process whose output goes to a file; leaving the with block ends it."""

    def __init__(self, argv, log, netns=None, stdin=subprocess.DEVNULL):
        self.log = log
        words = [str(a) for a in argv]
        if netns:
            words = ["ip", "netns", "exec", netns, *words]
        with open(log, "ab") as out:
            out.write(f"$ {shlex.join(words)}\n".encode())
            out.flush()
            self.start_of_output = out.tell()
            self.popen = subprocess.Popen(words, stdin=stdin, stdout=out,
                                          stderr=subprocess.STDOUT, start_new_session=True,
                                          preexec_fn=die_with_parent)
        self.pid = self.popen.pid

    def output(self):
        with open(self.log, "rb") as f:
            f.seek(self.start_of_output)
            return f.read().decode(errors="replace")

    def alive(self):
        return self.popen.poll() is None

    def wait_output(self, pattern, timeout=60):
        def seen():
            match = re.search(pattern, self.output())
            if not match and not self.alive():
                raise Failed(f"{self.log.name}: ended with {self.popen.returncode} before "
                             f"'{pattern}' came:\n{self.output()[-1500:]}")
            return match
        return wait_for(f"'{pattern}' in {self.log.name}", seen, timeout)

    def wait(self, timeout=60):
        """The exit code once the process has ended by itself."""
        try:
            return self.popen.wait(timeout)
        except subprocess.TimeoutExpired:
            raise Failed(f"{self.log.name}: still runs after {timeout} s") from None

    def finish(self, timeout=120):
        """What the process printed, once it has ended; a failure is ours."""
        code = self.wait(timeout)
        if code:
            raise Failed(f"{self.log.name}: exit code {code}: {self.output()[-1500:]}")
        return self.output()

    def send_signal(self, number):
        if self.alive():
            self.popen.send_signal(number)

    def stop(self, number=signal.SIGTERM, grace=20):
        self.send_signal(number)
        try:
            self.popen.wait(grace)
        except subprocess.TimeoutExpired:
            self.popen.kill()
            self.popen.wait()
        return self.popen.returncode

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.stop()
