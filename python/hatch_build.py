"""The wheel's tag, by the glibc that the library needs."""

import pathlib
import re
import subprocess

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class Wheel(BuildHookInterface):
    def initialize(self, version, build_data):
        library = pathlib.Path(self.root, "gpc", "_libgpc.so")
        symbols = subprocess.run(["objdump", "-T", library], check=True, capture_output=True, text=True).stdout
        needed = max((int(a), int(b)) for a, b in re.findall(r"\(?GLIBC_(\d+)\.(\d+)", symbols))
        machine = re.search(r"file format elf64-(\S+)", symbols)[1].replace("-", "_").replace("littleaarch64", "aarch64")
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-manylinux_{needed[0]}_{needed[1]}_{machine}"
