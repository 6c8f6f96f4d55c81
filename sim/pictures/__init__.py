"""How a run looks: one module a picture. They are called from sim/report.py; matplotlib is imported when something is drawn."""
