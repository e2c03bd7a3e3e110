"""Advice: which known defects a kubelet with these settings has on this machine.

A defect is not looked up by a written condition. Short stories of a node are walked on the model of
the release, with the settings and the machine that were asked about; a story that breaks a promise
is matched with the known defects (:mod:`hunting.defects`).
"""
