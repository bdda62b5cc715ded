"""Drives a plant of its own by a running gpc serve: the point mass of the case integrator-convex,
past its ellipse. The standard library is all that it needs.

    gpc serve integrator-convex --listen 127.0.0.1:8080 &
    python3 examples/serve-client/client.py http://127.0.0.1:8080
"""

import json
import sys
import time
import urllib.error
import urllib.request

STEPS = 20
DT = 0.2  # s


def ask(server, operation, **fields):
    """The answer to a request. What the server refuses is an error that names the field."""
    request = urllib.request.Request(f"{server}/v1/{operation}", json.dumps(fields).encode(), {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as refused:
        said = json.load(refused)
        raise RuntimeError(f"{refused.code}: {said['error']} (field {said['field']!r})") from None


def main(server):
    s = [-3.4, 0.2, 0.3, 0.0]  # position, m; velocity, m/s
    c = [0.0, 0.0, 0.15, 0.1, 0.0]  # last action, m/s²; the ellipse's way and speed; t/T
    for t in range(STEPS):
        d = ask(server, "decide", session="python", s=s, c=c, deadline_ms=1000, observed_ms=time.time() * 1e3)
        print(f"{t:2d}  position {s[0]:6.3f} {s[1]:6.3f}  action {d['u'][0]:6.3f} {d['u'][1]:6.3f}  feasible {str(d['feasible']).lower()}")
        for i, u in enumerate(d["u"]):
            s[i] += DT * s[2 + i] + 0.5 * DT * DT * u
            s[2 + i] += DT * u
            c[i] = u
        c[2], c[4] = c[2] + c[3] * DT, (t + 1) / STEPS
    ask(server, "reset", session="python")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:8080")
