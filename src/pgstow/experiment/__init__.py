"""Designed experiments: put servers under load, and say what they did."""
