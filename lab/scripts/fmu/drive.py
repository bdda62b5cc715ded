"""Drives exported units of FMI 2.0 by FMPy and holds them to the exported C: drive.py DIR...

DIR is what `gpc export CASE --fmu --c DIR` has written. The controller's unit and the plant's are coupled and stepped through
episodes. States, contexts, actions and status have the bits of the loop that the same sources make as a library. The units' sources are also
compiled with every warning an error. Prints a line for each unit pair; the exit code is 1 where something differs.
"""

from __future__ import annotations

import ctypes
import random
import re
import shutil
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

from fmpy import extract, read_model_description
from fmpy.fmi2 import FMU2Slave
from fmpy.validation import validate_fmu

FLAGS = ["-std=c99", "-O2", "-ffp-contract=off", "-DGPC_SCRATCH="]
STRICT = ["-Wall", "-Wextra", "-Werror", "-pedantic"]
EPISODES = 3


def bits(values: list[float]) -> bytes:
    return struct.pack(f"{len(values)}d", *values)


class Unit:
    """One instance of a unit, its variables by the vector that they are of."""

    def __init__(self, path: Path, work: Path) -> None:
        problems = validate_fmu(str(path))
        if problems:
            raise SystemExit(f"{path}: {problems}")
        self.description = read_model_description(str(path))
        self.folder = Path(extract(str(path), str(work / path.stem)))
        self.vectors: dict[str, list[int]] = {}
        for v in self.description.modelVariables:
            self.vectors.setdefault(v.name.split(".")[0], []).append(v.valueReference)
        self.slave = FMU2Slave(
            guid=self.description.guid,
            unzipDirectory=str(self.folder),
            modelIdentifier=self.description.coSimulation.modelIdentifier,
            instanceName=path.stem,
        )
        self.slave.instantiate()

    def begin(self, **values: list[float]) -> None:
        self.slave.reset()
        self.slave.setupExperiment(startTime=0.0)
        self.slave.enterInitializationMode()
        for name, v in values.items():
            self.set(name, v)
        outputs = [v.valueReference for v in self.description.modelVariables if v.causality == "output" and v.type == "Real"]
        shown = self.slave.getReal(outputs)
        self.slave.exitInitializationMode()
        if repr(shown) != repr(self.slave.getReal(outputs)):
            raise SystemExit(f"{self.folder}: outputs {shown} in initialization mode, {self.slave.getReal(outputs)} after it")

    def get(self, name: str) -> list[float]:
        return list(self.slave.getReal(self.vectors[name]))

    def set(self, name: str, values: list[float]) -> None:
        self.slave.setReal(self.vectors[name], values)

    def compile_strictly(self, work: Path) -> None:
        for path in sorted((self.folder / "sources").glob("*.c")):
            subprocess.run(["gcc", *FLAGS, *STRICT, "-c", str(path), "-o", str(work / "strict.o")], check=True)


class Library:
    """The exported C as a library, and its closed loop: plant, what is measured, actions under way."""

    def __init__(self, folder: Path, symbol: str, work: Path) -> None:
        path = work / f"{symbol}.so"
        sources = [str(p) for p in sorted(folder.glob("gpc_*.c"))]
        subprocess.run(["gcc", *FLAGS, *STRICT, "-fPIC", "-shared", "-o", str(path), *sources, "-lm"], check=True)
        self.library, self.symbol = ctypes.CDLL(str(path)), symbol
        self.loop = ctypes.create_string_buffer(1 << 22)
        header = folder / f"gpc_{symbol}_measured.h"
        self.measured = header.exists()
        self.filtered = hasattr(self.library, f"gpc_{symbol}_outputs")
        self.fraction = hasattr(self.library, f"gpc_{symbol}_to_measured")
        under_way = re.search(r"_UNDER_WAY = (\d+)", header.read_text()) if self.measured else None
        self.ahead = int(under_way[1]) if under_way else 0

    def call(self, name: str, *args: object) -> int:
        f = getattr(self.library, f"gpc_{self.symbol}_{name}")
        f.restype = ctypes.c_uint
        return int(f(*args))

    @staticmethod
    def array(values: list[float]) -> ctypes.Array[ctypes.c_double]:
        return (ctypes.c_double * max(1, len(values)))(*values)

    def begin(self, scenario: list[float], sizes: dict[str, int]) -> None:
        self.s, self.c, self.u, self.before = (self.array([0.0] * sizes[name]) for name in ("s", "c", "u", "u"))
        self.outputs = sizes.get("y", 0)
        self.call("initial", self.array(scenario), self.s, self.c)
        self.call("begin_measured" if self.measured else "begin", self.loop)
        self.way = [self.array([0.0] * sizes["u"]) for _ in range(self.ahead)]
        for u in self.way:
            self.call("rest", u)

    def shown(self, noise: list[float]) -> ctypes.Array[ctypes.c_double]:
        """What the controller decides by."""
        at = self.s
        if self.fraction:
            at = self.array([0.0] * len(self.s))
            self.call("to_measured", self.s, self.c, self.way[0], at)
        if not self.filtered:
            return at
        y = self.array([0.0] * self.outputs)
        self.call("outputs", at, self.c, self.way[0] if self.fraction else self.before, y)
        return self.array([v + n for v, n in zip(y, noise)])

    def decide(self, y: ctypes.Array[ctypes.c_double]) -> int:
        if not self.measured:
            return self.call("act", self.loop, y, self.c, None, self.u)
        missing = (None,) if self.filtered else ()
        return self.call("act_measured", self.loop, y, *missing, self.c, None, self.u)

    def step(self) -> None:
        way = [*self.way, self.array(list(self.u))]
        self.before, self.way = way[0], way[1:]
        s_next, c_next = self.array([0.0] * len(self.s)), self.array([0.0] * len(self.c))
        self.call("step", self.s, self.c, self.before, s_next, c_next)
        self.s, self.c = s_next, c_next


def couple(controller: Unit, plant: Unit, c: Library, scenario: list[float], period: float, steps: int, rng: random.Random) -> int:
    """One episode by both; the number of steps in which something differs."""
    sizes = {name: len(v) for name, v in plant.vectors.items()}
    told = "y" if c.measured else "s"

    def draw() -> dict[str, list[float]]:
        return {"noise": [1e-3 * rng.gauss(0, 1) for _ in range(sizes["noise"])]} if c.filtered else {}

    noise = draw()
    plant.begin(p=scenario, **noise)
    controller.begin()
    c.begin(scenario, sizes)
    differ = 0
    for t in range(steps):
        controller.set(told, plant.get(told))
        controller.set("c", plant.get("c"))
        controller.slave.doStep(currentCommunicationPoint=t * period, communicationStepSize=period)
        y = c.shown(noise.get("noise", []))
        status = c.decide(y)
        same = bits(plant.get(told)) == bits(list(y)) and bits(controller.get("u")) == bits(list(c.u))
        same = same and controller.slave.getInteger(controller.vectors["status"]) == [status]
        noise = draw()
        for name, values in {"u": controller.get("u"), **noise}.items():
            plant.set(name, values)
        plant.slave.doStep(currentCommunicationPoint=t * period, communicationStepSize=period)
        c.step()
        differ += not (same and bits(plant.get("s")) == bits(list(c.s)) and bits(plant.get("c")) == bits(list(c.c)))
    return differ


def refuses(controller: Unit, period: float) -> bool:
    """What is no observation is answered with its status, and another period is refused."""
    controller.begin()
    told = "s" if "s" in controller.vectors else "c"
    controller.set(told, [float("nan")] * len(controller.vectors[told]))
    controller.slave.doStep(currentCommunicationPoint=0.0, communicationStepSize=period)
    if controller.slave.getInteger(controller.vectors["status"]) != [256]:
        return False
    try:
        controller.slave.doStep(currentCommunicationPoint=period, communicationStepSize=period / 2)
    except Exception:
        return True
    return False


def main() -> int:
    failed = 0
    for name in sys.argv[1:]:
        folder = Path(name)
        work = Path(tempfile.mkdtemp(prefix="gpc-fmu-"))
        try:
            paths = sorted(folder.glob("*_controller.fmu"))
            if len(paths) != 1:
                raise SystemExit(f"{folder}: {len(paths)} units of a controller, want 1")
            symbol = paths[0].stem.removeprefix("gpc_").removesuffix("_controller")
            controller, plant = Unit(paths[0], work), Unit(folder / f"gpc_{symbol}_plant.fmu", work)
            for unit in (controller, plant):
                unit.compile_strictly(work)
            c = Library(folder, symbol, work)
            experiment = plant.description.defaultExperiment
            period = float(experiment.stepSize)
            steps = round(float(experiment.stopTime) / period)
            middle = [float(v.start) for v in plant.description.modelVariables if v.name.startswith("p.")]
            rng = random.Random(7)
            differ = 0
            for episode in range(EPISODES):
                scenario = [v * (1 + 0.1 * rng.uniform(-1, 1) * (episode > 0)) + 0.05 * rng.uniform(-1, 1) * (episode > 0) for v in middle]
                differ += couple(controller, plant, c, scenario, period, steps, rng)
            refused = refuses(controller, period)
            print(f"{symbol}: {EPISODES} episodes of {steps} steps, {differ} steps differ, bad input and period {'refused' if refused else 'TAKEN'}")
            failed += differ > 0 or not refused
        finally:
            shutil.rmtree(work, ignore_errors=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
