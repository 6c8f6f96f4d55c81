"""All subjects, in the order in which they are run."""

from benchmarks import core, durable, footprint, growth, latency, runtime, sim
from benchmarks.contestant import Subject

SUBJECTS: dict[str, Subject] = {
    module.SUBJECT.name: module.SUBJECT for module in (core, runtime, durable, sim, latency, growth, footprint)
}
ASKED_FOR = {name: (name,) for name in SUBJECTS} | {"runtime": ("runtime", "latency", "growth")}
"""What belongs to the runtime is measured in one run with it; latency and growth also go by their own names."""
