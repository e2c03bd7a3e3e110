"""Dry runs: every scenario is walked, every command that it would send to the node is shown, and
nothing is sent.

    with closing(DryRunSubject.opened("ssh://root@node7", ledger)) as subject:
        walk(cases, subject, ledger)
    ledger.commands                      # what a run would send, in order

The node is reached, and asked what it is, as for any run: that reads only. From then on nothing is
sent: each command is assumed to lead to what the model says, so that the scenario goes on to its
next command. The scripts, the changes and their order are those of a real run, because the same
code makes them; only the answers differ.

A dry run cannot know whether the node would do as the model says. A node that does not would be
watched for longer (that reads only), or end its scenario at that point. Ids that a run makes up
(pods' uids, the lease's owner) differ in each run; pids and cgroups of containers that do not exist
are stand-ins: no process has the pid 4194305.
"""

from hil.dry_run.ledger import Ledger
from hil.dry_run.subject import DryRunSubject, walk

__all__ = ["DryRunSubject", "Ledger", "walk"]
