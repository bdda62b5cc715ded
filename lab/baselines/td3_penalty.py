"""TD3 whose reward holds the limits, for one task and seed.

td3.py with its settings, and a reward that loses in every step, for each margin that is broken, what a step costs in the
mean of an episode without action (actions of zero, the middle of their range). The rule is fixed before any training.
"""

import td3

if __name__ == "__main__":
    td3.main("td3-penalty", penalty="step", doc=__doc__)
