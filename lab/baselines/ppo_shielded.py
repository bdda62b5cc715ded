"""PPO behind a one-step shield (Alshiekh et al. 2018), for one task and seed.

ppo.py with its settings, in environments whose safeguard has each action before the plant
does: gpc's domain.Safeguard. The learner is told what it did, not what was executed.
"""

import ppo

if __name__ == "__main__":
    ppo.main("ppo-shielded", safeguard=True, doc=__doc__)
