#!/usr/bin/env bash
# The systems of the gallery, a line each: name, target of the mean and of the worst start, budget of a compilation, and how
# many of the recorded episodes methods with a search and those with a solver in each decision run.
cat <<'SYSTEMS'
cartpole 0.5% 10% 15m 100 100
cartpole-track 0.5% 10% 15m 100 100
cstr 1.5% 10% 12m 50 50
quadrotor 1.5% 30% 12m 50 100
quadrotor-3d 1.5% 30% 25m 25 100
chain9 1.5% 30% 12m 25 100
hvac 1.5% 30% 25m 100 100
double-pendulum 1.5% 30% 60m 40 40
chain21 0.3% 20% 45m 10 100
SYSTEMS
