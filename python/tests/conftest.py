"""Sessions that the tests share, and scripts in processes of their own."""

import os
import signal
import subprocess
import sys

import pytest

import gpc

# A shell's background job has it ignored, and so would every process of the tests.
signal.signal(signal.SIGINT, signal.default_int_handler)


HANGS = 3600  # seconds after which a process has hung, on a machine of any speed


@pytest.fixture(scope="session")
def opf():
    """opf30 on one thread."""
    with gpc.open("opf30", threads=1) as s:
        yield s


@pytest.fixture(scope="session")
def cart():
    """integrator-convex on one thread."""
    with gpc.open("integrator-convex", threads=1) as s:
        yield s


@pytest.fixture(scope="session")
def command():
    """The command line, as a function of its arguments that gives (exit code, stdout, stderr)."""
    program = os.environ.get("GPC")
    if not program:
        pytest.fail("GPC is to name the gpc program that results are compared with (make test-python does)")

    def run(*args, stdin=""):
        p = subprocess.run([program, *args], input=stdin, capture_output=True, text=True, timeout=HANGS)
        return p.returncode, p.stdout, p.stderr

    return run


@pytest.fixture
def script(tmp_path):
    """Runs a Python script in a process of its own and gives what it printed."""

    def run(code, **environment):
        file = tmp_path / "script.py"
        file.write_text(code)
        p = subprocess.run([sys.executable, file], capture_output=True, text=True, timeout=HANGS, env={**os.environ, **environment})
        assert p.returncode == 0, p.stdout + p.stderr
        return p.stdout

    return run
