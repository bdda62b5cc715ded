"""Writes the pins of a report of pip (`pip install --dry-run --report FILE`): pin.py FILE TARGET, of `lab/run TARGET`. They are those of one
Python version and platform, which the first line says."""

import json
import platform
import sys

report = json.load(open(sys.argv[1]))
environment = report["environment"]
print(f"# Python {environment['python_version']}, {platform.system()} {environment['platform_machine']}: written by lab/run {sys.argv[2]}")
for item in sorted(report["install"], key=lambda i: i["metadata"]["name"].lower()):
    print(f"{item['metadata']['name']}=={item['metadata']['version']} --hash=sha256:{item['download_info']['archive_info']['hashes']['sha256']}")
