"""Hunting: histories of the model are searched for broken promises."""
