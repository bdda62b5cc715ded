"""The library in a process: when it starts, forks, copies, signals, memory."""

import fcntl
import io
import json
import multiprocessing
import os
import pty
import shutil
import signal
import struct
import subprocess
import sys
import termios
import time
import types

import numpy as np
import pytest

import gpc
from gpc._progress import Bar
from gpc.envs import Fleet

LONG = bool(os.environ.get("GPC_LONG"))


def test_importing_starts_nothing(script):
    out = script("""
import os, gpc
assert "_libgpc" not in open("/proc/self/maps").read()
pid = os.fork()
if pid == 0:  # before the library has started a fork is as any other
    gpc.version()
    print("started", flush=True)
    os._exit(0)
assert os.waitpid(pid, 0)[1] == 0
""")
    assert out == "started\n"


def test_a_fork_is_refused(script):
    out = script("""
import os, gpc
s = gpc.open("integrator-convex", threads=1)
state, context = s.observe()
loop = s.loop()
loop.decide(state, context)
pid = os.fork()
if pid == 0:
    for call in (lambda: loop.decide(state, context), lambda: s.refine(state, context), lambda: gpc.open("opf30"), gpc.version):
        try:
            call()
        except gpc.Error as e:
            print(e, flush=True)
    del loop, s  # releases nothing
    os._exit(0)
assert os.waitpid(pid, 0)[1] == 0
loop.decide(state, context)
""")
    lines = out.splitlines()
    assert len(lines) == 4 and all("spawn" in line for line in lines)


def _first_action(index):
    with gpc.open("integrator-convex", threads=1) as s:
        return s.decide(*s.observe(index)).u.tolist()


def _episode(index):
    """The rewards of five steps of episode index, with another environment beside it."""
    with Fleet("opf30", 1, seed=991, threads=1) as f, Fleet("integrator-convex", 2, seed=991, threads=1) as other:
        f.reset(episodes=[index])
        other.reset()
        rewards = []
        for _ in range(5):
            f.step()
            other.step()
            rewards.append(f.reward[0])
        return rewards


def test_eight_processes_of_environments_by_spawn():
    with multiprocessing.get_context("spawn").Pool(8) as pool:
        got = pool.map(_episode, [0] * 4 + [1] * 4, chunksize=1)
    assert got == [_episode(0)] * 4 + [_episode(1)] * 4 and got[0] != got[4]


def test_eight_processes_by_spawn():
    with multiprocessing.get_context("spawn").Pool(8) as pool:
        got = pool.map(_first_action, [0] * 4 + [1] * 4, chunksize=1)
    assert got == [_first_action(0)] * 4 + [_first_action(1)] * 4


def test_a_second_copy_is_refused(script, tmp_path):
    import shutil

    copy = tmp_path / "elsewhere"
    shutil.copytree(os.path.dirname(gpc.__file__), copy / "gpc")
    out = script(f"""
import sys, gpc
gpc.version()
first = gpc.__file__
for name in [n for n in sys.modules if n == "gpc" or n.startswith("gpc.")]:
    del sys.modules[name]
sys.path.insert(0, {str(copy)!r})
import gpc
assert gpc.__file__ != first
try:
    gpc.version()
except gpc.Error as e:
    print(e)
""")
    assert "one copy of the library" in out


def test_another_c_library_is_refused(script):
    out = script("""
import errno, os, gpc
def confstr(name):
    raise OSError(errno.EINVAL, "Invalid argument")
os.confstr = confstr
try:
    gpc.version()
except gpc.Error as e:
    print(e)
""")
    assert "musl" in out and "glibc" in out


@pytest.mark.skipif(shutil.which("musl-gcc") is None, reason="musl-gcc is not installed")
def test_musl_is_what_is_refused(tmp_path):
    """What the package asks musl for is answered as above, and the reason that it gives is musl's own."""
    import gpc._lib

    source, program = tmp_path / "load.c", tmp_path / "load"
    source.write_text(f"""
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <unistd.h>
int main(int count, char **arguments) {{
	size_t size = confstr({os.confstr_names["CS_GNU_LIBC_VERSION"]}, 0, 0);
	printf("%zu %d\\n", size, errno == EINVAL);
	puts(dlopen(arguments[1], RTLD_NOW) ? "loaded" : dlerror());
}}
""")
    subprocess.run(["musl-gcc", source, "-o", program], check=True)
    answer, loaded = subprocess.run([program, gpc._lib._file], capture_output=True, text=True, check=True).stdout.splitlines()
    assert answer == "0 1" and "initial-exec TLS" in loaded


def test_ctrl_c_ends_a_call_and_not_the_library(tmp_path):
    for line in ("s.evaluate('gpc', episodes=1000000, progress=False)", "s.refine(*s.observe(), candidates=1 << 18, flow_steps=1000)"):
        file = tmp_path / "long.py"
        file.write_text(f"""
import signal, sys, time, gpc
assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
s = gpc.open("integrator-convex", threads=1)
assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
try:
    print("started", flush=True)
    began = time.process_time()
    {line}
except KeyboardInterrupt:
    took = time.process_time() - began
    with gpc.open("integrator-convex", threads=1) as other:
        print(len(other.decide(*other.observe()).u), took < 5, flush=True)
""")
        p = subprocess.Popen([sys.executable, file], stdout=subprocess.PIPE, text=True)
        assert p.stdout.readline() == "started\n"
        time.sleep(1)  # it is in the call then, or before it
        p.send_signal(signal.SIGINT)
        # The CPU time of a call that goes on to its end is minutes; how busy the machine is is not in it.
        assert p.stdout.readline() == "2 True\n", line
        assert p.wait() == 0
        p.stdout.close()


def test_a_failing_progress_ends_the_call(opf):
    class Enough(Exception):
        pass

    def progress(done, total):
        raise Enough

    with pytest.raises(Enough):
        opf.evaluate(episodes=1_000_000, progress=progress)  # all of them would take days
    opf.evaluate("direct", episodes=1)


def test_a_bar_is_a_line(opf, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "tqdm", None)  # as where it is not installed
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    opf.evaluate("direct", episodes=2, progress=True)
    err = capsys.readouterr().err
    assert "opf30 direct [##############################] 2/2" in err and err.endswith("\n")


def test_a_notebook_without_tqdm_has_the_line_too(opf, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "tqdm", None)
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    opf.evaluate("direct", episodes=2)
    assert not capsys.readouterr().err  # nobody looks
    monkeypatch.setitem(sys.modules, "ipykernel", types.ModuleType("ipykernel"))
    opf.evaluate("direct", episodes=2)
    assert "] 2/2" in capsys.readouterr().err


def test_a_notebook_has_a_widget(script):
    """tqdm's own, over stand-ins for what a kernel brings: ipykernel, IPython and ipywidgets."""
    pytest.importorskip("tqdm", reason="tqdm is not installed")
    out = script("""
import os, signal, sys, threading, time, types

class Widget:
    def __init__(self, **values):
        self.bar_style, self.layout, self.style = "", types.SimpleNamespace(), types.SimpleNamespace()
        self.__dict__.update(values)

shown = []
for name, content in {
    "ipykernel": {}, "ipykernel.zmqshell": {}, "IPython": {"get_ipython": object}, "IPython.display": {"display": shown.append},
    "ipywidgets": {"HTML": Widget, "FloatProgress": Widget, "HBox": Widget},
}.items():
    sys.modules[name] = types.ModuleType(name)
    sys.modules[name].__dict__.update(content)

import gpc
with gpc.open("integrator-convex", threads=1) as s:
    s.evaluate("direct", episodes=3)
    s.evaluate("direct", episodes=3, progress=False)
    def interrupt():
        while len(shown) < 2 or not shown[1].children[1].value:  # the call is in progress
            time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGINT)
    threading.Thread(target=interrupt, daemon=True).start()
    try:
        s.evaluate("direct", episodes=1_000_000)
    except KeyboardInterrupt:
        pass
for box in shown:
    text, bar, _ = box.children
    print(text.value.split(":")[0], bar.max, bar.value == bar.max, bar.bar_style, sep="|")
""")
    whole, broken = out.replace("\u2007", " ").splitlines()
    assert whole == "integrator-convex direct|3|True|success"
    assert broken == "integrator-convex direct|1000000|False|danger"


def test_calls_do_not_grow_the_memory(script):
    # Go's heap swings by as much as it holds before it is collected, by a tenth of
    # that with GOGC=10: what each half of the calls falls back to is compared.
    calls = 1_000_000 if LONG else 100_000
    out = script(f"""
import os, gpc
s = gpc.open("integrator-convex", threads=1)
state, context = s.observe(0)
bad = state[:-1]
z = s.encode(state[None], context[None])

def refused(call, *args):
    try:
        call(*args)
    except gpc.Error:
        return
    raise AssertionError("not refused")

def some(n):
    with s.loop("direct") as loop:
        for i in range(n):
            loop.decide(state, context)
            if i % 1000 == 0:
                s.decode(z, state[None], context[None])
                s.about()
                with s.loop("direct"):
                    pass
                refused(loop.decide, bad, context)
                refused(s.loop, "oracle")
    with open("/proc/self/statm") as f:
        return int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

some({calls} // 10)
ends = [some({calls} // 16) for _ in range(16)]
print(min(ends[8:]) - min(ends[:8]))
""", GOGC="10")
    grown = int(out)
    assert grown < 4 << 20, f"{grown >> 10} KiB over {calls // 2} calls"


def test_threads_may_share_a_loop(cart):
    import threading

    state, context = cart.observe(0)
    with cart.loop("direct") as loop:
        wanted, wrong = loop.decide(state, context).u, []

        def work():
            for _ in range(300):
                if not np.array_equal(loop.decide(state, context).u, wanted):
                    wrong.append(1)

        threads = [threading.Thread(target=work) for _ in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
    assert not wrong


def test_threads_may_share_loops_with_goals(cart):
    """Each decision is by the goal that it is given, whatever another thread asks for."""
    import threading

    state, context = (np.tile(v, (3, 1)) for v in cart.observe(0))
    first, second = (v.name for v in cart.spec.objectives)
    goals, wrong = [[first, second], [second, first]], []
    with cart.loops(3, "direct") as loops:
        wanted = [loops.decide(state, context, g, fresh=True).sigma for g in goals]
        assert not np.array_equal(*wanted)

        def work(k):
            for _ in range(10):
                if not np.array_equal(loops.decide(state, context, goals[k], fresh=True).sigma, wanted[k]):
                    wrong.append(k)

        threads = [threading.Thread(target=work, args=(k,)) for k in (0, 1)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
    assert not wrong


def test_close_waits_for_what_computes():
    """Sessions and loops are closed while other threads decide: these end by their own names, never in the library."""
    import threading

    for _ in range(10):
        session = gpc.open("integrator-convex", threads=2)
        state, context = session.observe(0)
        loops, errors = session.loops(64, "direct"), []
        rows = np.tile(state, (64, 1)), np.tile(context, (64, 1))

        def work(call):
            while True:
                try:
                    call()
                except Exception as e:
                    return errors.append(e)

        threads = [threading.Thread(target=work, args=(call,)) for call in (lambda: loops.decide(*rows), lambda: session.encode(*rows), lambda: loops.decide(*rows))]
        for t in threads:
            t.start()
        session.close()
        loops.close()
        for t in threads:
            t.join(60)
        assert len(errors) == 3 and all(isinstance(e, gpc.Error) and str(e).endswith("is closed") for e in errors), errors


def test_the_demo_draws(tmp_path):
    p = subprocess.run([sys.executable, "-m", "gpc.demo", "--out", tmp_path], capture_output=True, text=True)
    assert p.returncode == 0, p.stderr
    assert "best of 4096 candidates" in p.stdout
    assert json.loads((tmp_path / "refinement.json").read_text())["feasible"]
    drawn = tmp_path / p.stdout.splitlines()[-1]
    assert drawn.suffix in (".svg", ".png") and drawn.stat().st_size > 1000


def test_a_bar_has_one_line_of_the_terminal():
    """A line that is longer than the terminal is wide would be a new one at each call."""
    for columns, label in ((80, "sled: drive refine-64-polish-ahead from held-out starts"), (80, "opf"), (50, "sled: solve"), (132, "sled: drive direct from the test's starts")):
        master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        stream = io.StringIO()
        stream.fileno = lambda slave=slave: slave
        bar = Bar(label, stream)
        for done in range(0, 1001, 250):
            bar(done, 1000)
        lines = stream.getvalue().split("\r")
        os.close(master)
        os.close(slave)
        assert len(lines) == 6 and max(map(len, lines)) < columns and all(label[:6] in line and "/1000, " in line and "[" in line for line in lines[1:]), lines
