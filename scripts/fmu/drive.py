"""Drives exported units of FMI 2.0 by FMPy and holds them to the exported C: drive.py DIR...

DIR is what `gpc export CASE --fmu --c DIR` has written. The controller's unit and the plant's are coupled and stepped through
episodes. States, contexts, actions and status have the bits of the loop that the same sources make as a library. The units' sources are also
compiled with every warning an error. Prints a line for each unit pair; the exit code is 1 where something differs.
"""

from __future__ import annotations

import ctypes
import random
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
        self.slave.exitInitializationMode()

    def get(self, name: str) -> list[float]:
        return list(self.slave.getReal(self.vectors[name]))

    def set(self, name: str, values: list[float]) -> None:
        self.slave.setReal(self.vectors[name], values)

    def compile_strictly(self, work: Path) -> None:
        for path in sorted((self.folder / "sources").glob("*.c")):
            subprocess.run(["gcc", *FLAGS, *STRICT, "-c", str(path), "-o", str(work / "strict.o")], check=True)


class Library:
    """The exported C as a library."""

    def __init__(self, folder: Path, symbol: str, work: Path) -> None:
        path = work / f"{symbol}.so"
        sources = [str(p) for p in sorted(folder.glob("gpc_*.c"))]
        subprocess.run(["gcc", *FLAGS, *STRICT, "-fPIC", "-shared", "-o", str(path), *sources, "-lm"], check=True)
        self.library, self.symbol = ctypes.CDLL(str(path)), symbol
        self.loop = ctypes.create_string_buffer(1 << 22)

    def call(self, name: str, *args: object) -> int:
        f = getattr(self.library, f"gpc_{self.symbol}_{name}")
        f.restype = ctypes.c_uint
        return int(f(*args))

    @staticmethod
    def array(values: list[float]) -> ctypes.Array[ctypes.c_double]:
        return (ctypes.c_double * max(1, len(values)))(*values)


def couple(controller: Unit, plant: Unit, c: Library, scenario: list[float], period: float, steps: int) -> int:
    """One episode by both; the number of steps in which something differs."""
    plant.begin(p=scenario)
    controller.begin()
    s, ctx, u = (c.array([0.0] * len(plant.vectors[name])) for name in ("s", "c", "u"))
    c.call("initial", c.array(scenario), s, ctx)
    c.call("begin", c.loop)
    differ = 0
    for t in range(steps):
        controller.set("s", plant.get("s"))
        controller.set("c", plant.get("c"))
        controller.slave.doStep(currentCommunicationPoint=t * period, communicationStepSize=period)
        plant.set("u", controller.get("u"))
        plant.slave.doStep(currentCommunicationPoint=t * period, communicationStepSize=period)
        status = c.call("act", c.loop, s, ctx, None, u)
        same = bits(controller.get("u")) == bits(list(u)) and controller.slave.getInteger(controller.vectors["status"]) == [status]
        s_next, c_next = c.array([0.0] * len(s)), c.array([0.0] * len(ctx))
        c.call("step", s, ctx, u, s_next, c_next)
        s, ctx = s_next, c_next
        differ += not (same and bits(plant.get("s")) == bits(list(s)) and bits(plant.get("c")) == bits(list(ctx)))
    return differ


def refuses(controller: Unit, period: float) -> bool:
    """What is no observation is answered with its status, and another period is refused."""
    controller.begin()
    controller.set("s", [float("nan")] * len(controller.vectors["s"]))
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
                differ += couple(controller, plant, c, scenario, period, steps)
            refused = refuses(controller, period)
            print(f"{symbol}: {EPISODES} episodes of {steps} steps, {differ} steps differ, bad input and period {'refused' if refused else 'TAKEN'}")
            failed += differ > 0 or not refused
        finally:
            shutil.rmtree(work, ignore_errors=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
