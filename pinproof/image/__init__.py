"""The container image of pinproof: an OCI archive of Debian's packages and this installation.

``contents`` says what is in it, ``python_packages`` puts pinproof and its libraries together,
``archive`` is the form of an archive, ``making`` makes one. ``requirements.txt`` and
``requirements-go.txt`` pin the libraries with their digests.
"""
