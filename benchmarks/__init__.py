"""Benchmarks that anybody can rerun: `python -m benchmarks core --json`, and so on."""
