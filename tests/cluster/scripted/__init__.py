"""The storm's scripts, as data over ``scripted_model``: what `make cluster` loads.

The profile itself is shipped (`noeta/chaos/profiles.py`), because `noeta cluster` must run where no tests are; the
tests here hold it to what a storm needs.
"""

from noeta.chaos.profiles import STORM, StormProfile

__all__ = ["STORM", "StormProfile"]
