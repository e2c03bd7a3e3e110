"""Dry runs: every scenario is walked, every command that it would send to the node is shown, and
nothing is sent.

    with closing(DryRunSubject.opened("ssh://root@node7", ledger)) as subject:
        walk(cases, subject, ledger)
    ledger.commands                      # what a run would send, in order

The node is reached, and asked what it is, as for any run: that reads only. From then on nobody is
asked: whatever a command would bring about is assumed to be what the model says, so that the
scenario goes on to its next command. The scripts, the changes and their order are those of a real
run, because the same code makes them; what answers is all that differs.

What a dry run cannot know: whether the node would answer so. One that does not is watched for
longer (looks only), or ends its scenario at that point. Ids that a run makes up (pods' uids, the
lease's owner) are others in each run; pids and cgroups of containers that do not exist are
stand-ins: no process has the pid 4194305.
"""

from hil.dry_run.ledger import Ledger
from hil.dry_run.subject import DryRunSubject, walk

__all__ = ["DryRunSubject", "Ledger", "walk"]
