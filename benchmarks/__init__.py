"""Benchmarks that anybody can rerun: `python -m benchmarks core --json`, `python -m benchmarks sim --json`."""
