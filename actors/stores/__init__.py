"""Stores: where tasks are kept when the program is gone."""
