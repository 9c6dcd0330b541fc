"""The model-based test: a store and the reference, driven by the same random steps, must answer alike.

``compare`` is the one entry point. Needs hypothesis, which a plain installation does not have: import this package
where it is used.
"""

from noeta.testing.model_based.run import Comparison, Failure, compare

__all__ = ["Comparison", "Failure", "compare"]
