"""Hypothesis profiles: `default` for every run, `ci` the same without chance, `explore` (make explore) for a long look.

Where a change is judged, the same commit must get the same verdict every time; what chance finds, it finds where people
work and in `make explore`.
"""

import os

from hypothesis import HealthCheck, settings

settings.register_profile(
    "default",
    max_examples=100,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    print_blob=True,
)
settings.register_profile("ci", settings.get_profile("default"), derandomize=True)
settings.register_profile("explore", settings.get_profile("default"), max_examples=3_000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci" if "CI" in os.environ else "default"))
