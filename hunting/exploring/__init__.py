"""Drawn histories on a subject, beside the model of its release: where does it differ?

``factors`` is what is drawn, ``pods`` and ``events`` are what the values mean, ``drafting`` makes a
history of them on the model, ``covering`` decides what is drawn next, ``driving`` walks a subject
through a history, ``campaign`` runs it all, ``telling`` and ``plan`` write it down.
"""
