"""A page on which the model runs in a browser (docs/playground.md).

Python runs there by Pyodide, from the files of the page alone; :mod:`pinproof.playground.build`
writes them. :mod:`pinproof.playground.asked` is what the page asks, with the answers of
:mod:`pinproof.simulation`.
"""
