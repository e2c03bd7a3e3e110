"""Quicker ways to the same answers, for budgets that were measured."""
