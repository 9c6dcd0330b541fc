"""The machine that hypothesis drives: every rule there is.

Each rule is one kind of step, or a few that belong together, so that their number weighs them: about half are moves of
an owner, the others are what happens to it from outside. Choices lean on what the reference shows.
"""

from __future__ import annotations

from noeta.testing.model_based.commit_rules import CommitRules
from noeta.testing.model_based.family_rules import FamilyRules
from noeta.testing.model_based.holder_rules import HolderRules
from noeta.testing.model_based.outside_rules import OutsideRules


class Machine(CommitRules, FamilyRules, HolderRules, OutsideRules):
    """One example of all rules."""
